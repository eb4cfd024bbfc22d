"""Support for the tests of the runtime: agents as processes, models and servers with scripted behaviour."""
