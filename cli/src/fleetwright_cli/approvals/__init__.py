"""`fleetwright approvals`, `approve` and `deny`: lists what waits for a person, and decides."""
