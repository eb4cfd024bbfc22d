"""The gateway: one URL for all agents of an installation."""
