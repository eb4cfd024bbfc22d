"""The A2A server: the edge, the task log, the request handler, the card."""
