"""`fleetwright chat` and `fleetwright run`: clients of any A2A agent, for people and for programs.

`transport/` speaks A2A 1.0 over HTTP, `model/` is the pure state of a conversation, `session/` connects the two, and
`view/` and `headless/` show the changes.
"""
