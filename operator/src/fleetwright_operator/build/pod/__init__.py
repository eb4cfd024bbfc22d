"""The parts of a pod: security context, volumes, mounted files, `podTemplate`. Pure."""
