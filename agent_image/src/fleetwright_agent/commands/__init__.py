"""The commands of the agent image beside `serve`."""
