"""The parts of `agent.json` that the fields of a spec become. Pure."""
