"""Pair tokens: the signing keys, and the tokens that agents verify."""
