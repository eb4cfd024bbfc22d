"""Typed, frozen and lenient views of Agent, Skill and McpServer.

`parse_agent`, `parse_skill` and `parse_mcp_server` parse an object once; all later code uses the view. An invalid spec
does not raise an error: each error in it becomes a `Violation` that names the field.
"""
