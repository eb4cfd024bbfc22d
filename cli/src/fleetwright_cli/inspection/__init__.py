"""Read-only views of agents: their state, the reasons for their connections and tools, and their tasks."""
