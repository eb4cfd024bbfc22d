"""The A2A agent runtime that runs in every agent pod."""
