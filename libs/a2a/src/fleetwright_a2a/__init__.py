"""What every A2A server of Fleetwright shares: dialects, bindings, HTTP limits, task events, outbound policy."""
