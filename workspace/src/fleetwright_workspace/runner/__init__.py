"""The HTTP server with the file tools and the streamed execution."""
