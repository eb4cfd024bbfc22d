"""What does the work of a task: the turn of this runtime, or an executor of the a2a-sdk."""
