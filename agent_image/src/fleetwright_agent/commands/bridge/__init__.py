"""Streamable HTTP in front of an MCP server that speaks over its standard input and output."""
