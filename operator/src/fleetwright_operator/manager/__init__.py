"""The process: leader election, work queue, workers, metrics and health server, shutdown, kopf registration."""
