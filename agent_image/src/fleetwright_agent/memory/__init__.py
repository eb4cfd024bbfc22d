"""Everything that outlives a turn, keyed by owner: conversations, sessions, facts, skills and costs."""
