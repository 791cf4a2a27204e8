"""Sparse probes over all neurons: a path of penalties, and one probe polished."""
