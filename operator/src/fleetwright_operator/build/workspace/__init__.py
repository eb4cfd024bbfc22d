"""The children of an agent's workspace."""
