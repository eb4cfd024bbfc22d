"""Brings a skill's files into a pod before its agent starts, and tells whether they are those that were looked at."""
