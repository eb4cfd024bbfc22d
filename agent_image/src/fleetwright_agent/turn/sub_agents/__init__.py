"""Sub-agents: a part of a turn runs in a separate conversation, within the limits of the turn."""
