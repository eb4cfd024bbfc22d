"""Values that the server, the turn and the storage exchange. This package imports no other layer."""
