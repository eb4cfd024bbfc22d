"""The common parts of the A2A servers: dialects, bindings, HTTP limits, task events, policies, tokens."""
