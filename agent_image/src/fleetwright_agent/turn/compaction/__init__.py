"""Keeping a conversation inside its window: measuring, deciding, summarising, showing less."""
