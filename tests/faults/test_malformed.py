"""O11: objects that the CRDs' validation would have refused, in a cluster without that validation."""

import asyncio
import copy
from pathlib import Path

import pytest
import yaml
from e2e.control_plane.client import Refusal, path_of
from e2e.faults import flows
from pydantic import ValidationError
from tests.support.bad_input.agents import BAD_AGENTS
from tests.support.bad_input.parts import BAD_PARTS
from tests.support.bad_input.unknown import UNKNOWN_WORDS
from tests.support.bad_input.whole import SKILL, changed
from tests.support.waiting import await_until

from fleetwright_agent.config.agent import AgentConfig
from fleetwright_api import names

CRDS = Path(__file__).parents[2] / "crds"
GOOD_MODEL = {"name": "m", "baseURL": "http://192.0.2.1/v1"}
HALF_A_LETTER = '---\nname: half-a-letter\ndescription: "a \\ud800 b"\n---\nx'
MALFORMED = {
    "Agent": {
        "no-spec": {},
        "spec-is-a-list": [],
        "model-is-a-word": {"instructions": "Help.", "model": "m"},
        "instructions-are-a-number": {"instructions": 7, "model": GOOD_MODEL},
        "peers-are-a-word": {"instructions": "Help.", "model": GOOD_MODEL, "peers": "helper"},
        "a-peer-has-no-name": {"instructions": "Help.", "model": GOOD_MODEL, "peers": [{}]},
        "a-skill-is-a-number": {"instructions": "Help.", "model": GOOD_MODEL, "skills": [5]},
        "memory-is-a-word": {"instructions": "Help.", "model": GOOD_MODEL, "memory": "much"},
        "compaction-is-a-list": {"instructions": "Help.", "model": GOOD_MODEL, "compaction": ["Always"]},
        "auth-is-a-word": {"instructions": "Help.", "model": GOOD_MODEL, "auth": "none"},
        "a-peer-is-a-path": {"instructions": "Help.", "model": GOOD_MODEL, "peers": [{"name": "../../agents/poet"}]},
        "a-peer-is-a-fox": {"instructions": "Help.", "model": GOOD_MODEL, "peers": [{"name": "H\u0065\u0301lper 🦊"}]},
        "a-peer-has-two-lines": {"instructions": "Help.", "model": GOOD_MODEL, "peers": [{"name": "a\nb\u2028c"}]},
        "a-peer-turns-the-line": {"instructions": "Help.", "model": GOOD_MODEL, "peers": [{"name": "\u202etop"}]},
        "a-peer-is-long": {"instructions": "Help.", "model": GOOD_MODEL, "peers": [{"name": "a" * 5000}]},
        "a-namespace-is-a-path": {
            "instructions": "Help.",
            "model": GOOD_MODEL,
            "peers": [{"name": "poet", "namespace": "../x/ü"}],
        },
        "a-skill-is-a-path": {"instructions": "Help.", "model": GOOD_MODEL, "skills": [{"name": "../Ünï/%2e%2e"}]},
        "a-server-is-a-path": {"instructions": "Help.", "model": GOOD_MODEL, "mcpServers": [{"name": "a/../ß?x=1#y"}]},
        "a-key-is-a-path": {
            "instructions": "Help.",
            "model": {**GOOD_MODEL, "apiKeySecretRef": {"name": "../key", "key": "../../ü"}},
        },
    },
    "Skill": {
        "no-source": {},
        "empty-source": {"source": {}},
        "no-files": {"source": {"inline": {}}},
        "files-are-a-list": {"source": {"inline": {"files": []}}},
        "a-nameless-config-map": {"source": {"configMap": {}}},
        # No request can contain a lone surrogate: the API server replaces it.
        "half-a-letter": {"source": {"inline": {"files": {"SKILL.md": HALF_A_LETTER}}}},
    },
    "McpServer": {
        "nowhere": {},
        "no-url": {"remote": {}},
        "url-is-a-number": {"remote": {"url": 5}},
        "image-is-a-list": {"workload": {"image": ["x"]}},
        "a-port-is-a-word": {"workload": {"image": "docker.io/example/tools:1", "port": "http"}},
    },
}

TAKEN = {
    # The runtime reports these in Available or Ready. No container runs in these tests.
    "an image is a reference": "the kubelet: InvalidImageName",
    "a server pulls with a Secret": "the kubelet: it has no such Secret, and the image cannot be pulled",
    "no root ports": "the server's container, which may not listen there",
    "a path is absolute": "the probe of the server, at an address that nobody serves",
    "a branch is no commit": "the probe of the Skill: the repository has no such commit",
    "a path stays in its repository": "the probe of the Skill: the commit has no such folder",
    "a header of the connection": "the provider, that gets a Host of somebody else",
    "a skill's host is no address": "ReferencesResolved of the agents that use it: https is no Service",
    # The value has its meaning, or a weaker one.
    "a response is not awaited for 29s": "the gateway waits for 29 seconds",
    "a response is not awaited for 25h": "the gateway waits for 25 hours",
    "a fallback's key is for its own address": "the key goes to the address that the fallback has by default",
    "a tag is no image": "the tag is mounted, whatever it leads to by then",
    "memory is within its volume": "the volume is full first",
    "the least limit of tokens": "the turn ends at the smaller limit",
    "what is ephemeral cannot be retained": "there is no volume to retain",
    "what is remembered is not kept again": "it is kept twice",
    "an administrator is a client": "nobody has that name",
    "sub-agents are told apart by their names": "one of them is asked",
    "a selector selects something": "it finds no Skill",
    "labels belong to a selector": "All are let in, as it says",
    "every agent speaks 1.0": "the older one alone is spoken",
    "additions to no policy": "there is no policy to add to",
    "a range and pods at once": "the range alone is opened",
    "an agent's name is a service's name": "a Service may begin with a digit in this Kubernetes",
    # The value is on the card unchanged.
    "a picture has an address": "the card",
    "a public address has no user": "the card",
    "a result has a media type": "the card",
    "a skill's id is part of a tool's name": "the card",
    "what an executor takes are media types": "the card",
}
"""Values that neither the operator nor the runtime's configuration refuses, and their reporter or effect."""


def ruled_out() -> list[tuple[str, str, str, dict]]:
    """(what, kind, name, spec) of all objects that the control plane's tests see refused."""
    found = []
    for number, param in enumerate([*BAD_AGENTS, *BAD_PARTS, *UNKNOWN_WORDS]):
        base, path, value, _ = param.values
        body = changed(base, path, value)
        name = body["metadata"]["name"] if path == "metadata.name" else f"case{number}"
        if body["spec"] == SKILL["spec"] or path.startswith("spec.permissions"):
            document = f"---\nname: {name}\ndescription: D.\n---\nx"
            body = changed(body, "spec.source.inline.files", {"SKILL.md": document})
        found.append((param.id, body["kind"], name, body["spec"]))
    return found


SHAPES = [
    *((name, kind, name, spec) for kind, shapes in MALFORMED.items() for name, spec in shapes.items()),
    *ruled_out(),
]


@pytest.fixture
async def without_rules(stand):
    """Install CRDs without validation, as older or hand-made ones may be. Restore the real ones afterwards."""
    real = {path.stem: yaml.safe_load(path.read_text()) for path in CRDS.glob("*.yaml")}
    for body in real.values():
        relaxed = copy.deepcopy(body)
        anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        relaxed["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = anything
        await stand.client.apply(relaxed)
    await _validation_is(stand, on=False)
    yield
    for body in real.values():
        await stand.client.apply(body)
    await _validation_is(stand, on=True)


async def _validation_is(stand, *, on: bool) -> None:
    """Wait until validation is on or off for all kinds. The API server applies a changed CRD after a delay."""
    for kind in MALFORMED:

        async def is_set(kind: str = kind) -> bool:
            return await _is_validated(stand, kind) is on

        await await_until(is_set, f"validation of {kind} is {on}", pause=0.2)


async def _is_validated(stand, kind: str) -> bool:
    body = {"apiVersion": names.API_VERSION, "kind": kind, "metadata": {"name": "empty"}, "spec": {}}
    try:
        await stand.client.request("POST", f"{path_of(kind, 'default')}?dryRun=All", body)
    except Refusal as refusal:
        if refusal.status != 422:
            raise
        return True
    return False


async def test_o11_malformed_objects_are_reported_without_a_crash(stand, without_rules):
    """O11: every shape that validation would have refused. Some objects exist before the operator starts."""
    space = await stand.space()
    for name, entry in (("a", "b"), ("key", "api-key")):  # The bad specs refer to these.
        await stand.client.apply(flows.key(space, "one", name=name, entry=entry))
    for _, kind, name, spec in SHAPES[::2]:
        await stand.put(kind, space, name, spec)
    operator = await stand.operator(space, FLEETWRIGHT_STALLED_SECONDS="30")
    for _, kind, name, spec in SHAPES:
        await stand.put(kind, space, name, spec)
    await stand.agent(space)
    await stand.wait_until_programmed(space, "poet")
    await stand.until(space, lambda: all(_is_decided(stand, space, shape) for shape in SHAPES), "all are decided on")
    await stand.quiet(space)
    assert {what for what, *shape in SHAPES if not _is_refused(stand, space, *shape)} == TAKEN.keys()

    passes = {kind: await operator.passes(kind) for kind in MALFORMED}
    await asyncio.sleep(10)
    for kind in MALFORMED:
        number = sum(shape[1] == kind for shape in SHAPES)
        rejected = sum(shape[1] == kind and _is_rejected(stand, space, *shape[1:3]) for shape in SHAPES)
        # The operator retries requests that the API server refused after at least a second, and the others rarely.
        assert await operator.passes(kind) - passes[kind] <= number + 10 * rejected
        assert passes[kind] <= 12 * (number + 1)
    assert operator.process.exit_code is None

    await stand.put("Agent", space, "no-spec", flows.agent("x", space)["spec"])
    await stand.wait_until_programmed(space, "no-spec")


def _is_decided(stand, space: str, shape: tuple) -> bool:
    _, kind, name, _ = shape
    programmed = stand.condition(kind, space, name, "Programmed").get("status") == "True"
    return programmed or stand.is_told(kind, space, name)


def _is_rejected(stand, space: str, kind: str, name: str) -> bool:
    return stand.condition(kind, space, name, "Programmed").get("reason") == "Rejected"


def _is_refused(stand, space: str, kind: str, name: str, spec: object) -> bool:
    """Return True if a condition reports it, or if the runtime refuses it, in a preflight or at a pod's start."""
    if stand.is_told(kind, space, name):
        return True
    revision = stand.cache.find(kind, space, name)["status"].get("revision", "")
    config = stand.cache.find("ConfigMap", space, names.agent_config(name, revision))
    try:
        AgentConfig.model_validate_json(config["data"][names.CONFIG_KEY] if config else "{}")
    except ValidationError:
        return config is not None
    return False
