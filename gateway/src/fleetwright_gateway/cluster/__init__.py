"""The cache of agents, of their pods, and of the owners between them."""
