"""The headless client for scripts and CI."""
