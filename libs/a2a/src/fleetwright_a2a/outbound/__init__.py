"""Outbound connections: only to allowed addresses, with pinned DNS results and responses of limited size."""
