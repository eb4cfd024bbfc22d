"""Preflight and probe pods, their results, and the limits on how many agents roll out at a time."""
