"""Keeps a conversation within the model's context window: measures, decides, summarises, and truncates results."""
