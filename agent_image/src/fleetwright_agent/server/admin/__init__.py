"""The endpoints with which administrators export and erase the data that the agent has stored of an owner."""
