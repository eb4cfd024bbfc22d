"""The loop: LangGraph between a model and tools, spoken to in frames."""
