"""Tools from packages that somebody put into the agent's image."""
