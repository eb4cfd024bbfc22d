"""Approvals: the open questions of agents, the next step of an Approval, and the agents' answers to decisions. Pure."""
