"""The storage ports, the values that they store, and one package for each implementation."""
