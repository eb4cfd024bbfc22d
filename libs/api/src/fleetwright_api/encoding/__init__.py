"""Encoding of canonical JSON, and parsing of untrusted JSON."""
