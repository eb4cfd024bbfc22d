"""The Kubernetes API: a port, its adapter, the cache of what was seen, and the writes.

Knows objects, owners and fields; refuses to know agents. The only package that imports an HTTP client.
"""
