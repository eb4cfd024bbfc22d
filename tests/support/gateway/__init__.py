"""Shared code of the tests of the gateway."""
