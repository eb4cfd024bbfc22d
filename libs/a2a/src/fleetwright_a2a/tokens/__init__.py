"""Signed tokens between agents. Only this package imports the JOSE library."""
