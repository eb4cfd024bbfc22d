"""The links around each model call and tool call, one concern to a module, in a tested order."""
