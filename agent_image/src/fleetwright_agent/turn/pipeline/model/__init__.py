"""Middleware of model calls, one concern in a module."""
