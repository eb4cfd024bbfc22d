"""Typed, frozen and lenient views of Agent, Skill and McpServer.

`parse_agent`, `parse_skill` and `parse_mcp_server` read an object once. Nothing after that reads a spec as a mapping.
A broken spec never raises an error: each mistake becomes a violation that names the field.
"""
