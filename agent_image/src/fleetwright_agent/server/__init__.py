"""The A2A server: middlewares, authentication, the request handler, the task log, and the agent card."""
