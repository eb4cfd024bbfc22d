"""Signed tokens between agents, and proofs of possession. Only this package imports the JOSE library."""
