"""Engines run steps: each takes a step that is ready, and says when any has ended."""
