"""The error that every store of the agent's memory raises, except the task log."""


class MemoryUnusable(Exception):  # noqa: N818 - states a fact about the storage, and reads so where it is raised
    """The storage cannot be read or written. The text is for operators of the agent, not for callers."""
