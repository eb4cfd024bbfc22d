"""The tool `webfetch`, which reads pages of the hosts that the configuration names."""
