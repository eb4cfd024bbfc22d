"""Which addresses an outbound connection may use. This package opens no connection."""
