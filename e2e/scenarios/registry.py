"""A registry in the cluster for the images of scenarios. Nodes pull over loopback, where TLS is not required.

One port is open, the other requires a password. Both serve the same images.
"""

import base64
import copy
import json
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from e2e.cluster.buildah import Buildah
from e2e.scenarios import workloads
from e2e.scenarios.fleet import Fleet

OPEN, GUARDED = 5000, 5001
USER, PASSWORD = "team", "open-sesame"
_HTPASSWD = f"{USER}:$2b$05$abcdefghijklmnopqrstuutXu9KzOt.1yBoZUeFWoT/914/JfszCO"  # the bcrypt hash of PASSWORD
_AUTH = {
    "REGISTRY_AUTH": "htpasswd",
    "REGISTRY_AUTH_HTPASSWD_REALM": "registry",
    "REGISTRY_AUTH_HTPASSWD_PATH": "/etc/registry/htpasswd",
    "REGISTRY_HTTP_ADDR": f":{GUARDED}",
}


@dataclass(frozen=True)
class Registry:
    fleet: Fleet
    engine: Buildah
    ports: Mapping[int, int]
    """The port on the node, by the port of the registry."""

    def publish(self, name: str, files: Mapping[str, str]) -> str:
        """Build an image of these files and move the tag `1` of that name to it. Return the image's digest."""
        tag = f"localhost/{self.fleet.namespace}-{name}"
        with tempfile.TemporaryDirectory() as folder:
            context = Path(folder)
            for path, text in files.items():
                (context / path).write_text(text)
            (context / "Containerfile").write_text(f"FROM scratch\nCOPY {' '.join(files)} /\n")
            self.engine.build(context, context / "Containerfile", tag=tag, arguments={})
        try:
            with self.fleet.kubectl.forwarded("service/registry", OPEN, namespace=self.fleet.namespace) as port:
                return self.engine.push(tag, to=f"localhost:{port}/skills/{name}:1")
        finally:
            self.engine.forget_older(tag, keep=0)

    def reference(self, name: str, digest: str, *, port: int = OPEN) -> str:
        return f"{self._host(port)}/skills/{name}:1@{digest}"

    def pull_secret(self, name: str, *, password: str = PASSWORD) -> dict[str, Any]:
        """Return the Secret that `kubectl create secret docker-registry` would create."""
        login = {"auth": base64.b64encode(f"{USER}:{password}".encode()).decode()}
        config = json.dumps({"auths": {self._host(GUARDED): login}})
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}}
        return {**secret, "type": "kubernetes.io/dockerconfigjson", "stringData": {".dockerconfigjson": config}}

    def _host(self, port: int) -> str:
        return f"localhost:{self.ports[port]}"


def started(fleet: Fleet, engine: Buildah, *, image: str) -> Registry:
    htpasswd = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "htpasswd"}}
    fleet.apply({**htpasswd, "data": {"htpasswd": _HTPASSWD}}, _pod(image), _service())
    fleet.ready("pod/registry")
    for port in (OPEN, GUARDED):
        reached = partial(fleet.reaches, "deployment/offline-model", "registry", port)
        fleet.until(reached, f"port {port} of the registry is open")
    ports = {port["port"]: port["nodePort"] for port in fleet.get("service/registry")["spec"]["ports"]}
    return Registry(fleet, engine, ports)


def _pod(image: str) -> dict[str, Any]:
    pod = workloads.pod(
        "registry", image=image, command=("docker-registry", "serve", "/etc/docker-registry/config.yml")
    )
    (served,) = pod["spec"]["containers"]
    served["readinessProbe"] = {"tcpSocket": {"port": OPEN}, "periodSeconds": 1}
    guarded = copy.deepcopy(served)
    guarded |= {"name": "guarded", "env": [{"name": key, "value": value} for key, value in _AUTH.items()]}
    guarded["readinessProbe"]["tcpSocket"]["port"] = GUARDED
    guarded["volumeMounts"].append({"name": "htpasswd", "mountPath": "/etc/registry", "readOnly": True})
    pod["spec"]["containers"].append(guarded)
    pod["spec"]["volumes"].append({"name": "htpasswd", "configMap": {"name": "htpasswd"}})
    return pod


def _service() -> dict[str, Any]:
    service = workloads.service("registry")
    ports = [{"name": f"port-{port}", "port": port, "targetPort": port} for port in (OPEN, GUARDED)]
    service["spec"] |= {"type": "NodePort", "ports": ports}
    return service
