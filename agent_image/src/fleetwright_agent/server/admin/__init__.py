"""Administrators read and erase what the agent has stored of an owner."""
