"""The files below the root: paths, reads, atomic writes, undo, folders and searches."""
