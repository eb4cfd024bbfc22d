"""The contract between the operator and the runtime: the shape of `agent.json`."""
