"""The common parts of all A2A servers of Fleetwright: dialects, bindings, HTTP limits, task events, outbound policy."""
