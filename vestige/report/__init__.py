"""The report of a study: one HTML page or a README, made from its tables and its lock.

`default` makes the page of any analysis from what it declares, `pages/` has those with more to say; `front` chooses
what opens the report, `limits` says what the numbers do not; `html` and `markdown` write it. Nothing here computes a
statistic: every number is read from the tables.
"""
