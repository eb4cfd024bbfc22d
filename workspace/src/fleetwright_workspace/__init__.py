"""The workspace of a coding agent: file tools, undo, search and command execution.

This package uses the standard library only, supports Python 3.9, and imports no other package of Fleetwright.
"""

VERSION = "0.1.0"
