"""Wakes sleeping agents and holds their requests meanwhile."""
