"""The state of a conversation as a pure function of events. This package does no I/O and knows no screen."""
