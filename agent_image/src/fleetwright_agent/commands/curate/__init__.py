"""The `curate` command: prune and merge learned skills."""
