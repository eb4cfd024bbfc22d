"""The manifests and documents that should exist, as pure functions of specs and observations."""
