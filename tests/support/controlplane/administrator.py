"""The administrator of a control plane, and the namespace of one test. Neither uses code of the operator."""

import base64
import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from e2e.control_plane.deployments import operator_fields
from tests.support.machine import ceiling
from tests.support.waiting import wait_until

Object = dict[str, Any]
T = TypeVar("T")
CHANGE_SECONDS = 5.5
"""The promised duration of one change. Most take less than a second. The ceiling on the machine of reference is less
than the minute after which the operator retries by itself."""
LONG_SECONDS = 18.0
"""The promised duration of a change of many objects, or of one by the garbage collector. The collector discovers new
CRDs every 30 seconds, and the session has just created these."""
_EVENTS = "/api/v1/namespaces/{}/events"
_CORE = ("ConfigMap", "Secret", "Service", "ServiceAccount", "Pod", "PersistentVolumeClaim")
PATHS = {
    "Agent": "/apis/fleetwright.dev/v1alpha1/namespaces/{}/agents",
    "Skill": "/apis/fleetwright.dev/v1alpha1/namespaces/{}/skills",
    "Approval": "/apis/fleetwright.dev/v1alpha1/namespaces/{}/approvals",
    "McpServer": "/apis/fleetwright.dev/v1alpha1/namespaces/{}/mcpservers",
    "Deployment": "/apis/apps/v1/namespaces/{}/deployments",
    "CiliumNetworkPolicy": "/apis/cilium.io/v2/namespaces/{}/ciliumnetworkpolicies",
    "EndpointSlice": "/apis/discovery.k8s.io/v1/namespaces/{}/endpointslices",
    "NetworkPolicy": "/apis/networking.k8s.io/v1/namespaces/{}/networkpolicies",
    "Role": "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/roles",
    "RoleBinding": "/apis/rbac.authorization.k8s.io/v1/namespaces/{}/rolebindings",
    "ClusterRole": "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    "ClusterRoleBinding": "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
    "ValidatingAdmissionPolicy": "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings",
    "MutatingAdmissionPolicy": "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies",
    "MutatingAdmissionPolicyBinding": "/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicybindings",
    "CustomResourceDefinition": "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "Event": _EVENTS,
    "PersistentVolume": "/api/v1/persistentvolumes",
    "StorageClass": "/apis/storage.k8s.io/v1/storageclasses",
    "Namespace": "/api/v1/namespaces",
    "Node": "/api/v1/nodes",
    "ResourceQuota": "/api/v1/namespaces/{}/resourcequotas",
    "LimitRange": "/api/v1/namespaces/{}/limitranges",
    **{kind: f"/api/v1/namespaces/{{}}/{kind.lower()}s" for kind in _CORE},
}
POLICY_KINDS = ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
OPERATOR_ACCOUNT = "fleetwright-operator"
GATEWAY_ACCOUNT = "fleetwright-gateway"


class Refusal(Exception):  # noqa: N818 - an expected answer
    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status}: {message}")
        self.status = status
        self.message = message


class Admin:
    """The administrator's client. It uses plain HTTP, and none of the operator's code."""

    def __init__(self, server: str, token: str, ca: Path) -> None:
        self._server = server
        self._token = token
        self._context = ssl.create_default_context(cafile=str(ca))

    def request(
        self,
        method: str,
        path: str,
        body: Object | None = None,
        content: str = "application/json",
        *,
        accept: str = "application/json",
    ) -> Object:
        parsed: Object = json.loads(self._answer(method, path, body, content, accept))
        return parsed

    def _answer(self, method: str, path: str, body: Object | None, content: str, accept: str) -> bytes:
        request = urllib.request.Request(
            self._server + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {self._token}", "Content-Type": content, "Accept": accept},
        )
        try:
            with urllib.request.urlopen(request, timeout=ceiling(), context=self._context) as answer:
                payload: bytes = answer.read()
                return payload
        except urllib.error.HTTPError as error:
            with error:
                text = error.read().decode()
            message = json.loads(text)["message"] if text.startswith("{") else text
            raise Refusal(error.code, message) from None

    def apply(self, body: Object, *, manager: str = "test", dry: bool = False) -> Object:
        where = PATHS[body["kind"]].format(body["metadata"].get("namespace", ""))
        query = f"fieldManager={manager}&force=true" + ("&dryRun=All" if dry else "")
        path = f"{where}/{body['metadata']['name']}?{query}"
        return self.request("PATCH", path, body, "application/apply-patch+yaml")

    def merge(self, kind: str, namespace: str, name: str, patch: Object, *, subresource: str = "") -> Object:
        path = f"{PATHS[kind].format(namespace)}/{name}{subresource}"
        return self.request("PATCH", path, patch, "application/merge-patch+json")

    def find(self, kind: str, namespace: str, name: str) -> Object | None:
        try:
            return self.request("GET", f"{PATHS[kind].format(namespace)}/{name}")
        except Refusal as refusal:
            if refusal.status != 404:
                raise
            return None

    def list_objects(self, kind: str, namespace: str) -> list[Object]:
        items: list[Object] = self.request("GET", PATHS[kind].format(namespace))["items"]
        return items

    def table(self, kind: str, namespace: str) -> list[dict[str, Any]]:
        """Return the columns of `kubectl get -o wide`, one row for each object."""
        accept = "application/json;as=Table;v=v1;g=meta.k8s.io"
        answer = self.request("GET", PATHS[kind].format(namespace), accept=accept)
        columns = [column["name"] for column in answer["columnDefinitions"]]
        return [dict(zip(columns, row["cells"], strict=True)) for row in answer["rows"]]

    def versions(self, kind: str, namespace: str, *, since: str) -> list[Object]:
        """Return every later version of the objects, as a watch reports them."""
        query = f"watch=true&resourceVersion={since}&timeoutSeconds=4"
        lines = self._answer("GET", f"{PATHS[kind].format(namespace)}?{query}", None, "", "application/json")
        return [json.loads(line)["object"] for line in lines.splitlines()]

    def delete(self, kind: str, namespace: str, name: str) -> None:
        self.request("DELETE", f"{PATHS[kind].format(namespace)}/{name}")


@dataclass(frozen=True)
class Space:
    """One test's namespace, in which Pod Security enforces `restricted`."""

    admin: Admin
    name: str

    def apply(self, *objects: Object) -> None:
        for body in objects:
            self.admin.apply({**body, "metadata": {**body["metadata"], "namespace": self.name}})

    def create(self, body: Object) -> None:
        """Create as `kubectl create` and a first `kubectl apply` do. These requests run the CRD's validation rules."""
        whole = {**body, "metadata": {**body["metadata"], "namespace": self.name}}
        self.admin.request("POST", PATHS[body["kind"]].format(self.name), whole)

    def agent(self, name: str, **spec: Any) -> None:
        """Apply a whole Agent. Fields that are not given are removed."""
        whole = {"instructions": "Help.", "model": {"name": "m", "baseURL": "http://192.0.2.1/v1"}, **spec}
        self.apply({**object_head("Agent", name), "spec": whole})

    def find(self, kind: str, name: str) -> Object | None:
        return self.admin.find(kind, self.name, name)

    def get(self, kind: str, name: str) -> Object:
        return self.eventually(lambda: self.find(kind, name), f"{kind} {name} exists")

    def list_objects(self, kind: str) -> list[Object]:
        return self.admin.list_objects(kind, self.name)

    def condition(self, kind: str, name: str, condition: str) -> Object:
        """Return the condition for the current generation, or an empty mapping."""
        body = self.find(kind, name) or {}
        for found in body.get("status", {}).get("conditions", ()):
            if found["type"] == condition and found["observedGeneration"] == body["metadata"]["generation"]:
                return dict(found)
        return {}

    def wait(self, kind: str, name: str, condition: str, status: str, *, says: str = "") -> Object:
        def look() -> Object | None:
            found = self.condition(kind, name, condition)
            return found if found.get("status") == status and says in found.get("message", "") else None

        return self.eventually(
            look,
            f"{kind} {name} {condition}={status} {says!r}",
            shown=lambda: json.dumps((self.find(kind, name) or {}).get("status", {}), indent=1),
        )

    def eventually(
        self,
        look: Callable[[], T | None],
        what: str,
        *,
        promised: float = CHANGE_SECONDS,
        shown: Callable[[], object] | None = None,
    ) -> T:
        """Return the first truthy answer."""
        answer = wait_until(look, what, promised=promised, shown=shown, pause=0.05)
        assert answer is not None
        return answer

    def has_no_deleted_namespaces(self) -> bool:
        """Return True once the namespaces of earlier tests are gone. The operator reconciles those to their end."""
        spaces = self.admin.request("GET", "/api/v1/namespaces")["items"]
        return [space["metadata"]["name"] for space in spaces if "deletionTimestamp" in space["metadata"]] == []

    def secret(self, name: str) -> dict[str, str]:
        data = (self.find("Secret", name) or {}).get("data", {})
        return {key: base64.b64decode(value).decode() for key, value in data.items()}

    def get_operator_fields(self, kind: str, name: str) -> Object:
        """Return the fields of a Deployment that the deployment controller does not change."""
        body = self.get(kind, name)
        return {"metadata": operator_fields(body["metadata"]), "spec": body["spec"]}

    def versions(self) -> dict[str, str]:
        """Return the resourceVersion of every object that the operator manages."""
        kinds = ("Agent", "Skill", "McpServer", "Deployment", "NetworkPolicy", *_CORE)
        return {
            f"{kind} {body['metadata']['name']}": body["metadata"]["resourceVersion"]
            for kind in kinds
            for body in self.list_objects(kind)
        }


def object_head(kind: str, name: str) -> Object:
    return {"apiVersion": "fleetwright.dev/v1alpha1", "kind": kind, "metadata": {"name": name}}
