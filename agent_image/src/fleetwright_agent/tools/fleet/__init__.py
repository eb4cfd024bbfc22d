"""Agents of the same team, found at run time and called through the gateway."""
