"""Security: the egress policy, redaction of secrets, schema validation and the audit trail."""
