"""The commands for the administrators of an agent: its memory, its learned skills, its cost and its audit trail."""
