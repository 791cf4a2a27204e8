"""Durrani et al. 2021: what transfer learning does to linguistic knowledge in layers and neurons."""
