"""Sub-agents: parts of a turn's work, done apart from its conversation and within its limits."""
