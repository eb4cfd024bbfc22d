"""Reads everything that one reconciliation needs, and indexes which object concerns which."""
