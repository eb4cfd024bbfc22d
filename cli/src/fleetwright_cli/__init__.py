"""The `fleetwright` command."""
