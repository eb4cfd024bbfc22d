"""Checks of specs and of the objects that they refer to. Each check returns violations. Pure."""
