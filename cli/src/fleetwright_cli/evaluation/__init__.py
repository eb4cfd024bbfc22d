"""`fleetwright eval`: runs conversations with expectations, for CI."""
