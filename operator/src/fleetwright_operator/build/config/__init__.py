"""Converts fields of a spec to sections of `agent.json`. Pure."""
