"""Runs a fleet on one machine without a cluster: the operator's documents, the real runtime, local processes."""
