"""The command executor, which is served on a Unix socket."""
