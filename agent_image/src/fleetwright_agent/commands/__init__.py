"""The commands of the agent image other than `serve`."""
