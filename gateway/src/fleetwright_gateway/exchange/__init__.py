"""The token exchange (RFC 8693): an agent gets a token, bound to its own key, with which it calls another agent."""
