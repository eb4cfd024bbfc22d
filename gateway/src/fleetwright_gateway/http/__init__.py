"""Parts of HTTP that all routes share: request bodies, rate limits and error responses."""
