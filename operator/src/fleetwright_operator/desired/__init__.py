"""The desired state: pure functions from specs and observations to manifests and documents.

This package does not use clients, clocks, the environment, randomness or logging: equal input gives equal bytes.
"""
