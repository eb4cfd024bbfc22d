"""The terms of the API: names, quantities, durations, endpoints, call authorization. Pure."""
