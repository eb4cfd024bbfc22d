"""`fleetwright-agent audit`: looks at the trail of what an agent did."""
