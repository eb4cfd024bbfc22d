"""The registry: which agents a caller may reach, over HTTP."""
