"""Keeps learned skills in order: on a schedule inside the process, and as a command."""
