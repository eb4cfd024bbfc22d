"""The process: its two ports and its life from start to drain."""
