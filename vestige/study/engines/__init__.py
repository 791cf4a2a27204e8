"""Engines run cells. Each has one function, `run(cells, ...)`, and returns when all are done."""
