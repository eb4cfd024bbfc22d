"""The audit trail: one chained JSON line for each tool call, and its verification."""
