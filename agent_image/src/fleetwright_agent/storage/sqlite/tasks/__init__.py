"""The task log and the push outbox in one SQLite file."""
