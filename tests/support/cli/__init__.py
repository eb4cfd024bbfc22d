"""Shared code of the tests of the command line."""
