"""Access to a cluster with the user's kubeconfig."""
