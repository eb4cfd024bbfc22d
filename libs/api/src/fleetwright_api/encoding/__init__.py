"""Canonical JSON, and JSON from untrusted sources."""
