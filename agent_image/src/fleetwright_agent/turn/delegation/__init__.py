"""Sub-agents: a part of a turn runs in a conversation of its own, within the limits of the turn."""
