"""Installs those parts of the chart that a control plane without nodes can use: CRDs, namespace, account and RBAC.

Each operator process gets a separate release, with exactly the permissions that the chart gives that release.
"""

import asyncio
import json
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml
from e2e.cluster import binaries
from e2e.cluster.paths import CHECKOUT
from e2e.cluster.progress import SILENT
from e2e.control_plane.client import Client, Object, Refusal
from tests.support.waiting import within

ACCOUNT = "fleetwright-operator"
_RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}


@dataclass(frozen=True)
class Installation:
    namespace: str
    token: str


async def install_crds(client: Client, folder: Path = CHECKOUT / "crds") -> None:
    for body in [yaml.safe_load(file.read_text()) for file in sorted(folder.glob("*.yaml"))]:  # noqa: ASYNC240 - at start
        await client.apply(body)
        await _served(client, body["spec"]["names"]["kind"])


async def make_namespace(client: Client, name: str) -> None:
    """Create a namespace that enforces Pod Security, and wait until it is ready for pods."""
    await client.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": _RESTRICTED}})
    async with within(f"namespace {name} has its default ServiceAccount"):
        while not await client.find("ServiceAccount", name, "default"):  # noqa: ASYNC110 - another process creates it
            await asyncio.sleep(0.05)


async def install_release(
    client: Client, namespace: str, *, namespaces: Sequence[str] = (), gateway: bool = False
) -> Installation:
    """Create a namespace and the RBAC of a release that serves these namespaces, or all. Return its credentials."""
    await client.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    for body in await asyncio.to_thread(rendered_chart, namespace, namespaces, gateway=gateway):
        if body["kind"] == "ServiceAccount" or "rbac" in body["apiVersion"]:
            await client.apply(body)
    return await logged_in(client, namespace)


async def logged_in(client: Client, namespace: str) -> Installation:
    """Return an installation with a token of the operator's account in that namespace."""
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{ACCOUNT}/token"
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 7200}}
    answer = await client.request("POST", path, asked)
    return Installation(namespace, str(answer["status"]["token"]))


def rendered_chart(namespace: str, namespaces: Sequence[str], *, gateway: bool = False) -> list[Object]:
    helm = binaries.ensure(["helm"], SILENT)["helm"]
    where = [f"--namespace={namespace}", f"--set-json=namespaces={json.dumps(list(namespaces))}"]
    where += [] if namespaces else ["--set=rbac.clusterWideSecrets=true"]
    where += ["--set=gateway.enabled=true"] if gateway else []
    command = [str(helm), "template", "fleetwright", str(CHECKOUT / "charts" / "fleetwright"), *where]
    done = subprocess.run([*command, "--kube-version=1.36.0"], capture_output=True, text=True, check=True)
    documents = [document for document in yaml.safe_load_all(done.stdout) if document]
    for body in documents:
        if body["kind"] in {"ServiceAccount", "Role", "RoleBinding"}:
            body["metadata"].setdefault("namespace", namespace)
    return documents


async def _served(client: Client, kind: str) -> None:
    async with within(f"{kind} is served"):
        while True:
            try:
                await client.list(kind)
                return
            except Refusal:
                await asyncio.sleep(0.05)
