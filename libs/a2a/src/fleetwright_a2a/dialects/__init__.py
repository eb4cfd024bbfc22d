"""The dialects (versions) of A2A on one endpoint: one table per dialect, and two bindings that use the tables."""
