"""`fleetwright team`: shows, suspends, exports and imports an agent with its descendants."""
