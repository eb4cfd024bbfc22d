"""Policy of what the agent remembers: facts, learned skills and their curation."""
