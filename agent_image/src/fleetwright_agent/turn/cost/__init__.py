"""Prices, budgets and accounting of model calls."""
