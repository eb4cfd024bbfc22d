"""The policy for the addresses that an outbound connection may use. This package opens no connection."""
