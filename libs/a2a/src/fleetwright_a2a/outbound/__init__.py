"""Outbound connections: which addresses are allowed, resolved once, pinned, and bounded in size."""
