"""The policy for shell commands: which run at once, which a person must approve, and which never run. Pure."""
