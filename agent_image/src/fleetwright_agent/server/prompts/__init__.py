"""Tasks that the agent begins by itself."""
