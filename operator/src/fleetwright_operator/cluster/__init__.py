"""The Kubernetes API: an interface, its HTTP client, the cache of observed objects, and the writes.

This package knows objects, owners and fields, but not agents. It is the only package that imports an HTTP client.
"""
