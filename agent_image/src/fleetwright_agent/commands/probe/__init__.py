"""The `probe` commands: each examines one thing and prints a report, or fails with an exit code and a reason."""
