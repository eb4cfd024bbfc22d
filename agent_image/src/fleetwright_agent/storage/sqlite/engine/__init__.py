"""One SQLite file with a single writer: transactions, group commit, and reads."""
