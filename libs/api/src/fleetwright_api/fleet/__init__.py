"""The hierarchy of agents, and which of them may communicate. Pure."""
