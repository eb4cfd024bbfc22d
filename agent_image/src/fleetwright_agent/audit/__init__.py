"""`fleetwright-agent audit`: the command for the audit trail."""
