"""What should exist: pure functions from specs and observations to manifests and documents.

Refuses clients, clocks, the environment, randomness and logging: equal input gives equal bytes.
"""
