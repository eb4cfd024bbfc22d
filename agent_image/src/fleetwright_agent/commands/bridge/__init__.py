"""Serves a stdio MCP server over streamable HTTP."""
