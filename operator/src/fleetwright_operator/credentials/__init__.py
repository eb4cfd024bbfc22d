"""Tokens, rotation, keys and signatures, and how they are stored in Secrets."""
