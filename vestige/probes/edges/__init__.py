"""Probes of spans and pairs of spans."""
