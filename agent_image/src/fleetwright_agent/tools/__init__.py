"""What an agent can do besides answering: MCP tools, peers, skills."""
