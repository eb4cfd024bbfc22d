"""The Kubernetes API: a port, its adapter, the cache, the informer, and server-side apply."""
