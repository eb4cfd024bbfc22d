"""Tools from third-party packages in the agent's image."""
