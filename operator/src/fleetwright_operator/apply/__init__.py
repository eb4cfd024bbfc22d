"""Writes the children of an object to the API server."""
