"""Normalises the state of a namespace: replaces everything that differs between two successful runs.

Uids, versions, times, hashes and tokens are replaced by numbered words in the order of their appearance. Two
namespaces are equal when equal values occur in the same places. The digest of a token is replaced by a word derived
from that token, so a credential and its digest must still match.
"""

import base64
import binascii
import hashlib
import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

from e2e.control_plane.client import Object

from fleetwright_api import names

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_OPAQUE = re.compile(
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"  # a uid
    r"|(?<![A-Za-z0-9])[0-9a-f]{10,64}(?![A-Za-z0-9])"  # a hash
    r"|(?<![A-Za-z0-9_-])[A-Za-z0-9_-]{43,}(?![A-Za-z0-9_-])"  # a token, a signature
)
_TOKEN = re.compile(r"(?<![A-Za-z0-9_-])[A-Za-z0-9_-]{43}(?![A-Za-z0-9_-])")
_PROXY = re.compile(rf"http://[^\s\"]+:{names.EGRESS_PROXY_PORT}")
"""The address of an egress proxy, which the API server assigns to its Service."""
_POD = re.compile(r"-[a-z0-9]{6,10}-[a-z0-9]{5}$")
_OWN = {names.AGENT, names.SKILL, names.MCP_SERVER}
_WITH_STATUS = {*_OWN, names.APPROVAL}
_KEPT_METADATA = ("name", "labels", "annotations", "ownerReferences", "finalizers", "generation", "deletionTimestamp")
_FOREIGN_LABELS = {"pod-template-hash"}
_ASSIGNED = {"clusterIP", "clusterIPs", "nodePort", "volumeName", "installation"}
"""Fields that the API server assigns, and the name of the installation, which differs between the operators."""
_HISTORY = {"observedGeneration", "previousRevision"}
"""Fields that describe earlier specs."""


class NormalisedState:
    """The normalised state of one namespace at one time."""

    def __init__(self, texts: Sequence[tuple[str, str]]) -> None:
        """Args: `texts` has the masked and the complete text of each object."""
        ordered = sorted(texts, key=lambda text: text[0])
        self._masked = [masked for masked, _ in ordered]
        self._whole = [whole for _, whole in ordered]

    @cached_property
    def text(self) -> str:
        return _renamed("\n".join(self._whole))

    def __eq__(self, other: object) -> bool:
        # Renaming is expensive, and most differences are visible in the masked texts.
        return isinstance(other, NormalisedState) and self._masked == other._masked and self.text == other.text

    __hash__ = None  # type: ignore[assignment] # equality is of content


class Reader:
    """Normalises objects, and caches the text of every object until it changes."""

    def __init__(self, *, generations: Collection[str] | None = None) -> None:
        """Args: `generations` are the kinds whose generation (number of edits) is compared; None means all kinds."""
        self._generations = generations
        self._texts: dict[str, tuple[str, tuple[str, str]]] = {}
        """By uid: the resource version, and the texts of that version."""

    def read(self, objects: Iterable[Object], *, namespace: str) -> NormalisedState:
        # Revisions that differ only in hashes are sorted by their creation.
        bodies = sorted(filter(_of_interest, objects), key=lambda body: int(body["metadata"]["resourceVersion"]))
        return NormalisedState([self._text(body, namespace) for body in bodies])

    def parts(self, objects: Iterable[Object], *, namespace: str) -> dict[str, Any]:
        """Return the normalised fields of each object, by kind and bare name. An opaque value becomes a dot."""
        bodies = list(filter(_of_interest, objects))
        named = {f"{body['kind']}/{bare_name(body['kind'], body['metadata']['name'])}": body for body in bodies}
        if len(named) != len(bodies):
            raise ValueError(f"two of {sorted(named)} are called alike")
        return {name: json.loads(self._text(body, namespace)[0]) for name, body in sorted(named.items())}

    def _text(self, body: Object, namespace: str) -> tuple[str, str]:
        uid, version = body["metadata"]["uid"], body["metadata"]["resourceVersion"]
        known = self._texts.get(uid)
        if known is None or known[0] != version:
            part = json.dumps(_part(body, generations=self._generations), sort_keys=True, indent=1)
            whole = _PROXY.sub("<proxy>", _TIME.sub("<time>", part.replace(namespace, "<namespace>")))
            known = self._texts[uid] = (version, (_OPAQUE.sub("•", whole), whole))
        return known[1]


def bare_name(kind: str, name: str) -> str:
    """Return the name without its generated suffix."""
    name = _POD.sub("-*", name) if kind in {"Pod", "pods"} else name
    return re.sub(r"-[0-9a-f]{10,}(?=$|-)", "-*", name)


def _of_interest(body: Object) -> bool:
    labels = body["metadata"].get("labels", {})
    return body["kind"] in _OWN or labels.get(names.MANAGED_BY) == names.FIELD_MANAGER


def _part(body: Object, *, generations: Collection[str] | None) -> Object:
    kind = body["kind"]
    metadata = {key: body["metadata"][key] for key in _KEPT_METADATA if key in body["metadata"]}
    metadata["name"] = bare_name(kind, metadata["name"])
    metadata["labels"] = {key: value for key, value in metadata.get("labels", {}).items() if key not in _FOREIGN_LABELS}
    metadata["annotations"] = {
        key: value for key, value in metadata.get("annotations", {}).items() if names.GROUP in key
    }
    metadata["ourFields"] = sorted(
        (manager["operation"], manager.get("subresource", ""))
        for manager in body["metadata"].get("managedFields", ())
        if manager["manager"] == names.FIELD_MANAGER
    )
    if generations is not None and kind not in generations:
        metadata.pop("generation", None)
    if kind == "Pod":
        metadata.pop("ownerReferences", None)  # a ReplicaSet, whose name is different in each run
        return {"kind": kind, "metadata": metadata, "phase": body["status"].get("phase")}
    part = {"kind": kind, "metadata": metadata}
    part |= {key: body[key] for key in ("spec", "immutable", "type", "automountServiceAccountToken") if key in body}
    part["data"] = {key: _opened(value, encoded=kind == "Secret") for key, value in body.get("data", {}).items()}
    if kind in _WITH_STATUS:
        part["status"] = body.get("status", {})
    elif kind == "Deployment":
        part["status"] = _counts(body)
    cleaned: Object = _without(part, _ASSIGNED if generations is None else {*_ASSIGNED, *_HISTORY})
    return cleaned


def _counts(deployment: Object) -> Object:
    status = deployment.get("status", {})
    counts = {key: value for key, value in status.items() if isinstance(value, int) and key != "observedGeneration"}
    current = status.get("observedGeneration") == deployment["metadata"]["generation"]
    return {**counts, "current": current}


def _opened(text: str, *, encoded: bool) -> Any:
    try:
        text = base64.b64decode(text).decode() if encoded else text
        return json.loads(text)
    except (ValueError, binascii.Error, UnicodeDecodeError):
        return text


def _without(value: Any, dropped: set[str]) -> Any:
    if isinstance(value, Mapping):
        return {key: _without(below, dropped) for key, below in value.items() if key not in dropped}
    if isinstance(value, list):
        return [_without(below, dropped) for below in value]
    return value


def _renamed(whole: str) -> str:
    digests = {hashlib.sha256(token.encode()).hexdigest(): token for token in set(_TOKEN.findall(whole))}
    words: dict[str, str] = {}

    def word(found: re.Match[str]) -> str:
        text = found.group()
        if text in digests:
            return f"digest-of-{_numbered(words, digests[text])}"
        return _numbered(words, text)

    return _OPAQUE.sub(word, whole)


def _numbered(words: dict[str, str], text: str) -> str:
    return words.setdefault(text, f"#{len(words) + 1}")
