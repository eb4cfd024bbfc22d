"""The API server's validation: it accepts the documented samples and the examples, and refuses bad input."""

from pathlib import Path

import pytest
import yaml
from tests.support.bad_input.agents import BAD_AGENTS
from tests.support.bad_input.parts import BAD_PARTS, GIT_SERVERS
from tests.support.bad_input.unknown import UNKNOWN_WORDS
from tests.support.bad_input.whole import AGENT, SERVER, SKILL, changed

ROOT = Path(__file__).parents[2]


def samples() -> list:
    found = []
    for page in sorted((ROOT / "docs/reference").glob("*.md")):
        blocks = page.read_text().split("```yaml\n")[1:]
        found += [(f"{page.name} {number}", block.split("```")[0]) for number, block in enumerate(blocks)]
    found += [(str(path.relative_to(ROOT)), path.read_text()) for path in sorted((ROOT / "examples").rglob("*.yaml"))]
    return [
        pytest.param(body, id=f"{where}: {body['kind']} {body['metadata']['name']}")
        for where, text in found
        for body in yaml.safe_load_all(text)
        if body.get("apiVersion", "").startswith("fleetwright.dev")
    ]


@pytest.mark.parametrize("body", samples())
def test_documented_sample_is_accepted(space, body):
    space.create(body)


def pieces() -> list:
    """Return the partial specs of the guides, each completed to a whole object."""
    found = []
    for page in sorted((ROOT / "docs/guides").glob("*.md")):
        blocks = [block.split("```")[0] for block in page.read_text().split("```yaml\n")[1:]]
        bodies = [body for block in blocks for body in yaml.safe_load_all(block) if set(body) == {"spec"}]
        found += [pytest.param(_whole(body["spec"]), id=f"{page.name} {n}") for n, body in enumerate(bodies, 1)]
    return found


def _whole(spec: dict) -> dict:
    if "source" in spec:
        return {**SKILL, "spec": spec}
    if "remote" in spec or "workload" in spec:
        return {**SERVER, "spec": spec}
    own = {**AGENT["spec"], **spec, "model": {**AGENT["spec"]["model"], **spec.get("model", {})}}
    if "instructionsFrom" in spec:
        del own["instructions"]
    return {**AGENT, "spec": own}


@pytest.mark.parametrize("body", pieces())
def test_guide_snippet_is_accepted_with_strict_validation(admin, space, body):
    _create_strictly(admin, space, body)


def _create_strictly(admin, space, body: dict) -> None:
    body = {**body, "metadata": {**body["metadata"], "namespace": space.name}}
    plural = {"Agent": "agents", "Skill": "skills", "McpServer": "mcpservers"}[body["kind"]]
    path = f"/apis/fleetwright.dev/v1alpha1/namespaces/{space.name}/{plural}?fieldValidation=Strict"
    admin.request("POST", path, body)


@pytest.mark.parametrize(("base", "path", "value", "says"), [*BAD_AGENTS, *BAD_PARTS, *UNKNOWN_WORDS])
def test_validation_names_the_remedy_of_invalid_input(space, refusal, base, path, value, says):
    with pytest.raises(refusal) as refused:
        space.create(changed(base, path, value))
    assert says in refused.value.message


@pytest.mark.parametrize(("fields", "says"), [pytest.param(*found, id=rule) for *found, rule in GIT_SERVERS])
def test_validation_of_a_workspace_source_names_the_remedy(space, refusal, fields, says):
    git = {"url": "https://git.example.com/shop", **fields}
    with pytest.raises(refusal) as refused:
        space.create(changed(AGENT, "spec.workspace", {"image": "debian", "source": {"git": git}}))
    assert f"workspace.source.git.{says}" in refused.value.message


@pytest.mark.parametrize("part", ["memory", "workspace"])
def test_storage_of_an_agent_can_be_changed_and_reverted(space, part):
    """A claim cannot follow every change. The status says so, because a refused spec could not be reverted."""
    image = {} if part == "memory" else {"image": "docker.io/library/debian:12"}
    for storage in ({"size": "2Gi", "storageClassName": "fast"}, {"size": "1Gi", "storageClassName": "slow"}, None):
        settings = {**image, **({"storage": storage} if storage else {})}
        space.apply(changed(AGENT, f"spec.{part}", settings) if settings else AGENT)


@pytest.mark.parametrize("base", [AGENT, SKILL, SERVER], ids=["Agent", "Skill", "McpServer"])
def test_strict_validation_refuses_unknown_fields(admin, space, refusal, base):
    with pytest.raises(refusal, match=r'unknown field "spec\.nonsense"'):
        _create_strictly(admin, space, changed(base, "spec.nonsense", "x"))


def test_apply_with_resource_version_1_only_creates(space, refusal):
    """An apply with resourceVersion "1" only creates. The operator relies on this undocumented behaviour."""
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "resourceVersion": "1"}}
    space.apply({**body, "data": {"a": "1"}})
    with pytest.raises(refusal) as refused:
        space.apply({**body, "data": {"a": "2"}})
    assert refused.value.status == 409
    assert space.get("ConfigMap", "x")["data"] == {"a": "1"}
