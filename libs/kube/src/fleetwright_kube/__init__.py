"""The Kubernetes API: its interface, an HTTP client, a cache with an informer, and server-side apply."""
