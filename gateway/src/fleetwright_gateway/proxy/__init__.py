"""The A2A proxy: passes requests to the pods of agents and streams their answers."""
