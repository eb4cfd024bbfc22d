"""What outlives a turn, keyed by owner: conversations and the sessions before this one."""
