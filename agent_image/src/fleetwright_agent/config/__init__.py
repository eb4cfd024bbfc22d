"""The contract between the operator and the runtime: `agent.json` and the other mounted files."""
