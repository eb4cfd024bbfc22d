"""One reconciler for each kind: observe, validate, build, apply, report the status."""
