"""The report of a study: one HTML page or a README, made from its tables and its lock.

`findings` says what the comparisons show, in words; `figures` and `tables` show the same numbers;
`html` and `markdown` put them on a page. Nothing here computes a statistic: every number is read
from the tables.
"""
