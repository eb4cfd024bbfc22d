"""Reconciles Agent, Skill and McpServer objects into running A2A agents."""
