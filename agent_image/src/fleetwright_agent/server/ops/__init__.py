"""The operations port: health, readiness, metrics and the status page."""
