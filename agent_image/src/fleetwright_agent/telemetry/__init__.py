"""Traces of tasks, for who asks for them; metrics are `metrics.py`, and there always."""
