"""The bindings of A2A: JSON-RPC and HTTP+JSON, with streams of server-sent events."""
