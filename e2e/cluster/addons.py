"""The manifests that a local cluster needs beyond Kubernetes itself: RBAC of the policy enforcer, DNS, volumes.
This module does not apply them.

The volumes are created in advance. When a claim is deleted, `volume_recycler` empties the folder, and the volume is
available again, so a long-lived cluster does not run out of volumes.
"""

from pathlib import Path
from typing import Any

from e2e.cluster.identity import Identity
from e2e.cluster.kubeconfig import ROUTER

DNS_IMAGE = "localhost/fleetwright-coredns:1"
VOLUMES = 128
VOLUME_SIZE = "20Gi"

Manifest = dict[str, Any]


def network_policies() -> list[Manifest]:
    role = "fleetwright-network-policies"
    resources = [
        ("", ["pods", "namespaces", "nodes", "services", "endpoints"]),
        ("networking.k8s.io", ["networkpolicies"]),
        ("discovery.k8s.io", ["endpointslices"]),
    ]
    return [
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {"name": role},
            "rules": [
                {"apiGroups": [group], "resources": kinds, "verbs": ["get", "list", "watch"]}
                for group, kinds in resources
            ],
        },
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": role},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": ROUTER.name}],
        },
    ]


def dns(identity: Identity) -> list[Manifest]:
    labels = {"k8s-app": "kube-dns"}
    meta = {"name": "coredns", "namespace": "kube-system"}
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta},
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {"name": "system:coredns"},
            "rules": [
                {"apiGroups": [group], "resources": kinds, "verbs": ["list", "watch"]}
                for group, kinds in (("", ["services", "pods", "namespaces"]), ("discovery.k8s.io", ["endpointslices"]))
            ],
        },
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": "system:coredns"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "system:coredns"},
            "subjects": [{"kind": "ServiceAccount", **meta}],
        },
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": meta,
            "data": {
                "Corefile": ".:53 {\n errors\n health :8080\n ready :8181\n cache 5\n"
                " kubernetes cluster.local in-addr.arpa ip6.arpa {\n  pods insecure\n  ttl 5\n }\n}\n"
            },
        },
        _dns_deployment(labels),
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "kube-dns", "namespace": "kube-system", "labels": labels},
            "spec": {
                "selector": labels,
                "clusterIP": identity.dns_address,
                "ports": [
                    {"name": "dns", "port": 53, "protocol": "UDP"},
                    {"name": "dns-tcp", "port": 53, "protocol": "TCP"},
                ],
            },
        },
    ]


def _dns_deployment(labels: dict[str, str]) -> Manifest:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "coredns", "namespace": "kube-system"},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "serviceAccountName": "coredns",
                    "priorityClassName": "system-cluster-critical",
                    "dnsPolicy": "Default",
                    "containers": [
                        {
                            "name": "coredns",
                            "image": DNS_IMAGE,
                            "imagePullPolicy": "Never",
                            "args": ["-conf", "/etc/coredns/Corefile"],
                            "readinessProbe": {"httpGet": {"path": "/ready", "port": 8181}, "periodSeconds": 1},
                            "volumeMounts": [{"name": "config", "mountPath": "/etc/coredns"}],
                        }
                    ],
                    "volumes": [{"name": "config", "configMap": {"name": "coredns"}}],
                },
            },
        },
    }


def volume_folders(identity: Identity) -> list[Path]:
    return [identity.data / "volumes" / f"{number:03}" for number in range(1, VOLUMES + 1)]


def storage(identity: Identity) -> list[Manifest]:
    made = [
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": f"local-{folder.name}"},
            "spec": {
                "capacity": {"storage": VOLUME_SIZE},
                "accessModes": ["ReadWriteOnce"],
                "persistentVolumeReclaimPolicy": "Retain",
                "storageClassName": "standard",
                "hostPath": {"path": str(folder), "type": "Directory"},
            },
        }
        for folder in volume_folders(identity)
    ]
    return [
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {
                "name": "standard",
                "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
            },
            "provisioner": "kubernetes.io/no-provisioner",
            # One node has all volumes, so a claim does not have to wait for its pod. The scheduler would look for the
            # bound volume only once a second.
            "volumeBindingMode": "Immediate",
        },
        *made,
    ]
