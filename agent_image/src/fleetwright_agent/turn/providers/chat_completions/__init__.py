"""A client for chat completions: it sends one request over HTTP and reads the streamed answer."""
