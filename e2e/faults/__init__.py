"""`make sweep`: the operator behind a proxy that makes one thing go wrong at a time, against a real API server."""
