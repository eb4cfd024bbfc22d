"""Reads everything that one reconcile needs, and indexes which objects a changed object affects."""
