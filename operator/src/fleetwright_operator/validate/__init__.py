"""Checks of specs and of what they refer to. Each returns violations. Pure."""
