"""Removes secrets from text and from JSON values."""
