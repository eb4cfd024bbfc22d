"""Middleware of tool calls, one concern in a module."""
