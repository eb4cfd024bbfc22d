"""The ports of the task log and of the push notifications that belong to its tasks."""
