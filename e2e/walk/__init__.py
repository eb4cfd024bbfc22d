"""`make walk`: set, change, unset and restore every property of every kind.

No sequence of edits may leave a difference.
"""
