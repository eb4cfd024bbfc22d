"""A2A 1.0 over HTTP: the addresses of agents, requests, and event streams that survive a lost connection."""
