"""Decides whom a caller may reach."""
