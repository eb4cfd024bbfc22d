"""Tools that ask the caller, and approval of tool calls by the caller."""
