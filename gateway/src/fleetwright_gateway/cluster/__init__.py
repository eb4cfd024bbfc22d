"""What the gateway knows of the cluster: a cache of agents, their pods, and the owners between them."""
