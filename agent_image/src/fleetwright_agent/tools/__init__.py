"""The tools of the agent: the interface of a tool, and one package for each source of tools."""
