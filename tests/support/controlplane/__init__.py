"""Shared code of the tests against a real control plane."""
