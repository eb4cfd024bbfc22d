"""Identifies callers: agents by their pods, and people by their Kubernetes users."""
