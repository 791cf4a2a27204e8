"""Merchant et al. 2020, Figures 3 and 4: how deep tuning must reach, and how much depth a task needs."""
