"""What the agent may reach, decided in one place for everything that it opens a connection to by itself."""
