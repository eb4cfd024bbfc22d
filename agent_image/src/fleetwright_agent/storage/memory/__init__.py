"""Storage that ends with the process, for tests and for agents whose memory is ephemeral."""
