"""The agent loop: LangGraph with a model and tools. It communicates with the server in frames."""
