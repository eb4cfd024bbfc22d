"""Conditions, the status of each kind, Events, and what running agents and workloads report. Pure."""
