"""Middleware around model calls and tool calls, and the order in which it runs."""
