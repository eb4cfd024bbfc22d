"""Tools of the agent: the port, and one package for each source of tools."""
