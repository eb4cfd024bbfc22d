"""Other agents of the fleet as tools."""
