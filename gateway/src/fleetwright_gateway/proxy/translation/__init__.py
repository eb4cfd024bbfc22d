"""Translation between versions of A2A, for agents that do not support the version of their caller."""
