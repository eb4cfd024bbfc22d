"""Conversations in SQLite: the LangGraph checkpointer, views, archive and session rows."""
