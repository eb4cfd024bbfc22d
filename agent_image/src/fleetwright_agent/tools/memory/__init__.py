"""Tools that store, search and delete facts of the caller."""
