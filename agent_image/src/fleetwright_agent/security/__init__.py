"""Security: the roles of callers, and the validation of arguments against untrusted schemas."""
