"""Traces of tasks, exported if configured. Metrics are in `metrics.py` and are always available."""
