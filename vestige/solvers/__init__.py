"""Learners that train many probes in one pass over the data."""
