"""On the path of a measured operator: its image has no client of that name, which kopf would import if it could."""

raise ImportError("the operator's image has no kubernetes client")
