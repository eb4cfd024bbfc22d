"""Sub-agents, which do part of a turn's work outside its conversation and within its limits."""
