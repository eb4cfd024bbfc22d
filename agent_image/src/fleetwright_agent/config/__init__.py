"""The schema of `agent.json`, the contract between the operator and the runtime."""
