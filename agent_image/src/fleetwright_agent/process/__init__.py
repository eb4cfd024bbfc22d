"""The process around an agent: its two ports, start, drain, shutdown and maintenance."""
