"""The types and rules of the API: specs, names, quantities, durations, endpoints and call authorization. Pure."""
