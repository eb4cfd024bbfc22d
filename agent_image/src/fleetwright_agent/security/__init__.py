"""Security: the redaction of secrets, and the validation of arguments against untrusted schemas."""
