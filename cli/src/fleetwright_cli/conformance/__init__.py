"""`fleetwright probe`: checks whether an A2A server behaves as the specification demands."""
