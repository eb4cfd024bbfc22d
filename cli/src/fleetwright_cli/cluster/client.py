"""Reads and writes objects with the official Kubernetes client and the user's kubeconfig.

The client package takes half a second to import, so only this module imports it, and only when a command connects. The
typed APIs take twice as long, because they import the models of hundreds of kinds. `CustomObjectsApi` reads and writes
objects of every API group but the core group, without models, so that only commands that use Secrets or ConfigMaps
import a typed API.
"""

from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Self

import click
from kubernetes.client import ApiClient, CustomObjectsApi, V1DeleteOptions, V1Preconditions
from kubernetes.client.exceptions import ApiException
from kubernetes.config import ConfigException, list_kube_config_contexts
from kubernetes.watch import Watch
from urllib3.exceptions import HTTPError

from fleetwright_api import names
from fleetwright_cli.cluster.kubeconfig import connect_client
from fleetwright_cli.cluster.refusals import refusal
from fleetwright_cli.no_cluster import explained

if TYPE_CHECKING:
    from kubernetes.client import CoreV1Api

FIELD_MANAGER: Final = "fleetwright-cli"
CONFIG_MAP: Final = "ConfigMap"
_MERGE: Final = "application/merge-patch+json"
_JSON_PATCH: Final = "application/json-patch+json"
_APPLY: Final = "application/apply-patch+yaml"
_SECONDS: Final = 30
_PAGE: Final = 500
_GONE: Final = 410
_NOT_FOUND: Final = 404
_WATCH_SECONDS: Final = 300
_OPERATORS: Final = "app.kubernetes.io/name=fleetwright-operator"
_PLURALS: Final = {
    names.AGENT: "agents",
    names.APPROVAL: "approvals",
    names.MCP_SERVER: "mcpservers",
    names.SKILL: "skills",
}


class ClusterClient:
    """One cluster and the namespace that commands use unless an option names another."""

    def __init__(self, client: ApiClient, namespace: str, *, context: str | None = None) -> None:
        """Args: `context` is the context of the kubeconfig that the user has named."""
        self.context = context
        self._client = client
        self._custom = CustomObjectsApi(client)
        self.namespace = namespace

    @cached_property
    def _core(self) -> "CoreV1Api":
        from kubernetes.client import CoreV1Api

        return CoreV1Api(self._client)

    @classmethod
    def connect(cls, *, context: str | None, namespace: str | None) -> Self:
        """Connect as kubectl does: `KUBECONFIG` or `~/.kube/config`, and the current context unless one is given.

        Raises:
            click.ClickException: There is no kubeconfig, or it has no such context.
        """
        try:
            client = connect_client(context)
            contexts, active = list_kube_config_contexts()  # type: ignore[no-untyped-call] # its package has no annotations here
        except ConfigException as error:
            raise click.ClickException(explained(str(error))) from None
        chosen = next((each for each in contexts if each["name"] == context), active)
        return cls(client, namespace or chosen["context"].get("namespace") or "default", context=context)

    def get(self, kind: str, name: str) -> dict[str, Any]:
        """Raises: click.ClickException if the object does not exist, or may not be read."""
        with _explained(f"{kind} {name}", self.namespace):
            if kind == CONFIG_MAP:
                found = self._core.read_namespaced_config_map(name, self.namespace, _request_timeout=_SECONDS)
                return {"apiVersion": "v1", "kind": kind, **self._mapping(found)}
            return self._mapping(self._custom.get_namespaced_custom_object(*self._place(kind), name))

    def find(self, kind: str, name: str) -> dict[str, Any] | None:
        """Return an object of one of our kinds, or None. Raises: click.ClickException if it may not be read."""
        with _explained(f"{kind} {name}", self.namespace):
            try:
                return self._mapping(self._custom.get_namespaced_custom_object(*self._place(kind), name))
            except ApiException as error:
                if error.status == _NOT_FOUND:
                    return None
                raise

    def secret(self, name: str) -> dict[str, str]:
        """Return the decoded texts of a Secret. Raises: click.ClickException if it cannot be read."""
        with _explained(f"Secret {name}", self.namespace):
            found = self._mapping(self._core.read_namespaced_secret(name, self.namespace, _request_timeout=_SECONDS))
        return {key: b64decode(text).decode() for key, text in (found.get("data") or {}).items()}

    def annotate_secret(self, name: str, annotations: Mapping[str, str]) -> None:
        """Set annotations of a Secret. Raises: click.ClickException if it may not be changed."""
        with _explained(f"Secret {name}", self.namespace):
            patch = {"metadata": {"annotations": dict(annotations)}}
            self._core.patch_namespaced_secret(
                name, self.namespace, patch, field_manager=FIELD_MANAGER, _content_type=_MERGE
            )

    def list_operators(self, *, namespace: str | None = None) -> list[dict[str, Any]]:
        """Return the Deployments of operators in one namespace, or in all.

        Raises:
            click.ClickException: They may not be read.
        """
        chosen: dict[str, Any] = {"label_selector": _OPERATORS, "_request_timeout": _SECONDS}
        with _explained("Deployment objects", namespace or "all"):
            if namespace:
                found = self._custom.list_namespaced_custom_object("apps", "v1", namespace, "deployments", **chosen)
            else:
                found = self._custom.list_cluster_custom_object("apps", "v1", "deployments", **chosen)
            items: list[dict[str, Any]] = self._mapping(found)["items"]
            return items

    def find_lease(self, namespace: str, name: str) -> dict[str, Any] | None:
        """Return a Lease, or None. Raises: click.ClickException if it may not be read."""
        with _explained(f"Lease {name}", namespace):
            try:
                found = self._custom.get_namespaced_custom_object(
                    "coordination.k8s.io", "v1", namespace, "leases", name, _request_timeout=_SECONDS
                )
                return self._mapping(found)
            except ApiException as error:
                if error.status == _NOT_FOUND:
                    return None
                raise

    def username(self) -> str:
        """Return the name by which the API server knows the user of the kubeconfig."""
        with _explained("the user of the kubeconfig", self.namespace):
            body = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
            review = self._custom.create_cluster_custom_object(
                "authentication.k8s.io", "v1", "selfsubjectreviews", body, _request_timeout=_SECONDS
            )
            return str(self._mapping(review)["status"]["userInfo"]["username"])

    def _listed(self, kind: str, everywhere: bool) -> tuple[list[dict[str, Any]], str]:
        """Return all objects and the version of the list."""
        found: list[dict[str, Any]] = []
        following: str | None = None
        version = ""
        call, place = self._reader(kind, everywhere)
        with _explained(f"{kind} objects", "all" if everywhere else self.namespace):
            while following is None or following:
                page = self._mapping(call(*place, limit=_PAGE, _continue=following, _request_timeout=_SECONDS))
                found += page["items"]
                following, version = page["metadata"].get("continue") or "", page["metadata"]["resourceVersion"]
        return found, version

    def list(self, kind: str, *, everywhere: bool = False) -> list[dict[str, Any]]:
        """Return all objects of one of our kinds in the namespace, or in all namespaces, page by page."""
        return self._listed(kind, everywhere)[0]

    def watch(self, kind: str, *, everywhere: bool = False) -> Iterator[dict[str, Any]]:
        """Yield the objects that exist, and then every object that is new or has changed, without end."""
        version = ""
        with _explained(f"{kind} objects", "all" if everywhere else self.namespace):
            while True:
                if not version:
                    found, version = self._listed(kind, everywhere)
                    yield from found
                call, place = self._reader(kind, everywhere)
                try:
                    stream = Watch().stream(  # type: ignore[no-untyped-call] # its package has no annotations here
                        call, *place, resource_version=version, timeout_seconds=_WATCH_SECONDS
                    )
                    for event in stream:
                        version = event["object"]["metadata"]["resourceVersion"]
                        if event["type"] in {"ADDED", "MODIFIED"}:
                            yield event["object"]
                except ApiException as error:
                    if error.status != _GONE:
                        raise
                    version = ""

    def _reader(self, kind: str, everywhere: bool) -> tuple[Callable[..., Any], tuple[str, ...]]:
        """Return the function that lists a kind, with its first arguments."""
        if everywhere:
            return self._custom.list_cluster_custom_object, (names.GROUP, names.VERSION, _PLURALS[kind])
        return self._custom.list_namespaced_custom_object, self._place(kind)

    def merge(self, kind: str, name: str, patch: Mapping[str, Any], *, dry_run: bool = False) -> dict[str, Any]:
        """Change an object of one of our kinds with a JSON merge patch (RFC 7396).

        Args: `dry_run` only lets the API server check the request, and refuse unknown fields. So do the methods below.
        """
        with _explained(f"{kind} {name}", self.namespace):
            return self._mapping(
                self._custom.patch_namespaced_custom_object(
                    *self._place(kind),
                    name,
                    dict(patch),
                    field_manager=FIELD_MANAGER,
                    _content_type=_MERGE,
                    **_checked_only(dry_run),
                )
            )

    def json_patch(self, kind: str, name: str, operations: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Change an object of one of our kinds with a JSON Patch (RFC 6902).

        Unlike a merge patch, it can set values that contain null.
        """
        with _explained(f"{kind} {name}", self.namespace):
            return self._mapping(
                self._custom.patch_namespaced_custom_object(
                    *self._place(kind),
                    name,
                    [dict(operation) for operation in operations],
                    field_manager=FIELD_MANAGER,
                    _content_type=_JSON_PATCH,
                )
            )

    def apply(self, manifest: Mapping[str, Any], *, force: bool = False) -> None:
        """Apply a manifest server-side.

        Args: `force` takes over fields of other managers.

        Raises:
            ApiRefusal: The API server refuses it, with status 409 if another manager owns a field.
        """
        kind, name = manifest["kind"], manifest["metadata"]["name"]
        with _explained(f"{kind} {name}", self.namespace):
            options: dict[str, Any] = {"field_manager": FIELD_MANAGER, "force": force, "_content_type": _APPLY}
            if kind == CONFIG_MAP:
                self._core.patch_namespaced_config_map(name, self.namespace, dict(manifest), **options)
            else:
                self._custom.patch_namespaced_custom_object(*self._place(kind), name, dict(manifest), **options)

    def create(self, manifest: Mapping[str, Any], *, dry_run: bool = False) -> None:
        """Create an object of one of our kinds. Raises: click.ClickException if it exists or may not be created."""
        kind, name = manifest["kind"], manifest["metadata"]["name"]
        with _explained(f"{kind} {name}", self.namespace):
            self._custom.create_namespaced_custom_object(
                *self._place(kind), dict(manifest), field_manager=FIELD_MANAGER, **_checked_only(dry_run)
            )

    def delete(self, kind: str, name: str, *, uid: str, dry_run: bool = False) -> None:
        """Delete an object of one of our kinds, unless another object has replaced it."""
        with _explained(f"{kind} {name}", self.namespace):
            # A body replaces the parameters of the address, so a dry run is part of the body.
            dry = ["All"] if dry_run else None
            options = V1DeleteOptions(preconditions=V1Preconditions(uid=uid), dry_run=dry)
            self._custom.delete_namespaced_custom_object(*self._place(kind), name, body=options)

    def _place(self, kind: str) -> tuple[str, str, str, str]:
        return names.GROUP, names.VERSION, self.namespace, _PLURALS[kind]

    def _mapping(self, value: Any) -> dict[str, Any]:
        found: dict[str, Any] = self._client.sanitize_for_serialization(value)  # type: ignore[no-untyped-call] # as above
        return found


def _checked_only(dry_run: bool) -> dict[str, Any]:
    """Return the parameters of a request that changes nothing."""
    return {"dry_run": "All", "field_validation": "Strict"} if dry_run else {}


@contextmanager
def _explained(subject: str, namespace: str) -> Iterator[None]:
    """Turn an error of the client into one line for the user."""
    try:
        yield
    except ApiException as error:
        where = f"{subject} in namespace {namespace}"
        if error.status == _NOT_FOUND:
            raise click.ClickException(f"{where}: not found; --namespace names another namespace") from None
        raise refusal(where, error.status, error.reason, error.body) from None
    except HTTPError as error:
        raise click.ClickException(f"the API server is not reachable: {error}") from None
