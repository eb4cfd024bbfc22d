"""Storage in SQLite files. No other package imports `sqlite3`."""
