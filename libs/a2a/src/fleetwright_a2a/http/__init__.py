"""Checks and limits that apply to every HTTP request before the protocol reads it."""
