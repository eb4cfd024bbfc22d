"""The executors of tasks: the turn of this runtime, or an executor of the a2a-sdk."""
