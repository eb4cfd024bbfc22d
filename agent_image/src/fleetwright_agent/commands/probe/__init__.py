"""The `probe` commands, which check an agent, an MCP server or a skill and print a report, or fail with a reason."""
