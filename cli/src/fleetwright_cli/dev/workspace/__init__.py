"""The workspaces of a local fleet: a runner and a shell for each agent with `spec.workspace`."""
