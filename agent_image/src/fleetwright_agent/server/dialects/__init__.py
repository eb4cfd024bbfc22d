"""The dialects of A2A on one endpoint: a table for each, and two bindings that are driven by the tables."""
