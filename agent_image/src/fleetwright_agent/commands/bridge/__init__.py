"""Serves an MCP server that uses standard input and output over streamable HTTP."""
