"""Canonical JSON, untrusted JSON and timestamps."""
