"""The errors of the stores. Their texts are for operators of the agent, and are not shown to callers."""


class MemoryUnusable(Exception):  # noqa: N818 - states a fact about the storage, and reads so where it is raised
    """A store other than the task log cannot be read or written."""


class TaskLogUnavailable(Exception):  # noqa: N818 - states a fact about the log, and reads so where it is raised
    """The task log cannot be opened, read or written."""


class TaskNotRunning(TaskLogUnavailable):
    """The task has already ended or waits for its caller, or another process owns it. Nothing was written."""
