"""The tool that searches for tools, and its ranking."""
