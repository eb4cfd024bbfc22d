"""A stub that hides the Kubernetes client from a measured operator.

The operator's image has no such client, and kopf imports it if it can.
"""

raise ImportError("the operator's image has no kubernetes client")
