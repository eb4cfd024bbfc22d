"""The tools of an agent: MCP servers, peers, skills, memory and questions to people."""
