"""Substitutes that need no network: a deterministic model server, and an order book for the examples."""
