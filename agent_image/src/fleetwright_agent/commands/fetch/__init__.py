"""Downloads the files of a skill before its agent starts, and verifies their digest."""
