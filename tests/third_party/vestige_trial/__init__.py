"""A third party's package with one analysis; tests/e2e/test_third_party.py runs it as it is."""
