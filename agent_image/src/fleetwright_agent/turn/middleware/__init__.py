"""What happens around every model call and every tool call, one concern a file, called in a tested order."""
