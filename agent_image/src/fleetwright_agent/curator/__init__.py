"""Curates learned skills: on a schedule inside the agent, and as a command."""
