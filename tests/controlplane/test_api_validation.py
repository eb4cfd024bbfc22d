"""What the API server takes and refuses: the reference pages' samples, the examples, and bad input with its message."""

import copy
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
AGENT = {
    "apiVersion": "fleetwright.dev/v1alpha1",
    "kind": "Agent",
    "metadata": {"name": "a"},
    "spec": {"instructions": "Help.", "model": {"name": "m"}},
}
SKILL = {
    "apiVersion": "fleetwright.dev/v1alpha1",
    "kind": "Skill",
    "metadata": {"name": "a"},
    "spec": {"source": {"inline": {"files": {"SKILL.md": "---"}}}},
}
SERVER = {
    "apiVersion": "fleetwright.dev/v1alpha1",
    "kind": "McpServer",
    "metadata": {"name": "a"},
    "spec": {"remote": {"url": "https://example.com/mcp"}},
}


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
def test_a_documented_sample_is_accepted(space, body):
    space.create(body)


def pieces() -> list:
    """Of the guides: what they show of a spec, as an object that has what it leaves out."""
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
def test_what_a_guide_shows_of_a_spec_is_accepted_by_a_strict_client(admin, space, body):
    _create_strictly(admin, space, body)


def _create_strictly(admin, space, body: dict) -> None:
    body = {**body, "metadata": {**body["metadata"], "namespace": space.name}}
    plural = {"Agent": "agents", "Skill": "skills", "McpServer": "mcpservers"}[body["kind"]]
    path = f"/apis/fleetwright.dev/v1alpha1/namespaces/{space.name}/{plural}?fieldValidation=Strict"
    admin.request("POST", path, body)


def _changed(base: dict, path: str, value: object) -> dict:
    body = copy.deepcopy(base)
    *way, last = path.split(".")
    place = body
    for step in way:
        place = place.setdefault(step, {})
    if value is None:
        place.pop(last)
    else:
        place[last] = value
    return body


HELPER = {"name": "helper", "description": "Helps.", "instructions": "Help."}
BAD = [
    pytest.param(
        AGENT,
        "spec.subAgents",
        [HELPER | {"tools": ["task"]}],
        "a sub-agent gives work to nobody and asks nobody",
        id="a sub-agent gives no work",
    ),
    pytest.param(
        AGENT,
        "spec.subAgents",
        [HELPER | {"timeout": "soon"}],
        "subAgents.timeout must be a whole number and a unit",
        id="the time of a sub-agent is a duration",
    ),
    pytest.param(
        AGENT, "spec.subAgents", [HELPER, HELPER], "Duplicate value", id="sub-agents are told apart by their names"
    ),
    pytest.param(
        AGENT, "spec.plugins", [{"name": "My_Plugin"}], "plugins.name may hold lower-case", id="the name of a plugin"
    ),
    pytest.param(AGENT, "spec.toolSearch", {"always": []}, "toolSearch.above", id="a search says from when on"),
    pytest.param(
        AGENT, "spec.memory.maxBytes", "2Gi", "not be more than memory.storage.size", id="memory is within its volume"
    ),
    pytest.param(
        AGENT,
        "spec.memory.knowledge",
        {"ingest": ["tools__add"]},
        "set memory.knowledge.enabled to true",
        id="results are kept where facts are",
    ),
    pytest.param(
        AGENT,
        "spec.memory.knowledge",
        {"enabled": True, "ingest": ["recall_memory"]},
        "is remembered already",
        id="what is remembered is not kept again",
    ),
    pytest.param(AGENT, "spec.memory.maxBytes", "1Mi", "at least 16Mi", id="memory has room to begin with"),
    pytest.param(AGENT, "spec.memory.conversationRetention", "30d", "such as 720h", id="retention is a duration"),
    pytest.param(
        AGENT,
        "spec.auth.administrators",
        ["ghost"],
        "must name clients of auth.clients",
        id="an administrator is a client",
    ),
    pytest.param(
        AGENT,
        "spec.model.fallbacks",
        [{"name": "b", "apiKeySecretRef": {"name": "key"}}],
        "belong to an address: set baseURL too",
        id="a fallback's key is for its own address",
    ),
    pytest.param(
        AGENT, "spec.model.fallbacks", [{"name": "b"}] * 5, "must have at most 4 items", id="fallbacks are few"
    ),
    pytest.param(AGENT, "spec.model.provider", "Else", "Unsupported value", id="a provider is one that is known"),
    pytest.param(AGENT, "spec.limits.maxRepeatedCalls", 1, "must be 0, which looks for no", id="one call is no repeat"),
    pytest.param(AGENT, "spec.model.retries", -1, "greater than or equal to 0", id="no call is tried less than once"),
    pytest.param(AGENT, "metadata.name", "1st", "start with a letter", id="an agent's name is a service's name"),
    pytest.param(AGENT, "metadata.name", "a.b", "becomes a Service", id="an agent's name has no dot"),
    pytest.param(
        AGENT, "spec.instructions", None, "one of instructions and instructionsFrom", id="instructions are required"
    ),
    pytest.param(
        AGENT,
        "spec.instructionsFrom",
        {"configMapKeyRef": {"name": "a", "key": "b"}},
        "one of instructions and instructionsFrom",
        id="instructions come from one place",
    ),
    pytest.param(
        AGENT,
        "spec",
        {"model": {"name": "m"}, "instructionsFrom": {}},
        "exactly one of configMapKeyRef and secretKeyRef",
        id="instructions come from somewhere",
    ),
    pytest.param(
        AGENT,
        "spec.model.headersFrom",
        [{"name": "Host", "secretKeyRef": {"name": "a", "key": "b"}}],
        "that the connection itself sets",
        id="a header of the connection",
    ),
    pytest.param(
        AGENT,
        "spec.model",
        {
            "name": "m",
            "apiKeySecretRef": {"name": "a"},
            "headersFrom": [{"name": "authorization", "secretKeyRef": {"name": "a", "key": "b"}}],
        },
        "must not hold Authorization beside apiKeySecretRef",
        id="one credential in one header",
    ),
    pytest.param(
        AGENT, "spec.model.proxyURL", "http://u:p@proxy:1", "without user and path", id="a proxy holds no password"
    ),
    pytest.param(
        AGENT, "spec.skillSelector", {"matchLabels": {}}, "at least 1 properties", id="a selector selects something"
    ),
    pytest.param(
        AGENT,
        "spec.allowedCallers",
        {"namespaces": {"from": "All", "selector": {"matchLabels": {"a": "b"}}}},
        "belongs to from: Selector",
        id="labels belong to a selector",
    ),
    pytest.param(AGENT, "spec.executor", {"name": "dice.Dice"}, "such as dice:Dice", id="an executor is in a module"),
    pytest.param(
        AGENT,
        "spec.executor",
        {"name": "dice:Dice", "inputModes": ["png"]},
        "such as image/png",
        id="what an executor takes are media types",
    ),
    pytest.param(AGENT, "spec.model.name", "", "at least 1 chars long", id="a model has a name"),
    pytest.param(AGENT, "spec.model.baseURL", "api.openai.com", "absolute http or https", id="an address has a scheme"),
    pytest.param(AGENT, "spec.model.baseURL", "https://u:p@x/v1", "without user", id="an address holds no password"),
    pytest.param(AGENT, "spec.model.temperature", "3", 'such as "0.7"', id="a temperature is at most 2"),
    pytest.param(AGENT, "spec.model.temperature", 0.7, "must be of type string", id="a temperature is text"),
    pytest.param(AGENT, "spec.model.timeout", "90", "such as 90s", id="a timeout has a unit"),
    pytest.param(
        AGENT,
        "spec.model.price",
        {"inputPerMillion": "1", "outputPerMillion": "$2"},
        'such as "10"',
        id="a price is a decimal",
    ),
    pytest.param(
        AGENT,
        "spec.model.price",
        {"inputPerMillion": "1"},
        "outputPerMillion: Required",
        id="a price has both directions",
    ),
    pytest.param(
        AGENT,
        "spec.model",
        {"name": "m", "contextWindow": 2000, "maxOutputTokens": 2000},
        "must be smaller than",
        id="the answer is part of the window",
    ),
    pytest.param(
        AGENT, "spec.model.apiKeySecretRef", {"name": "A b"}, "the name of a Secret", id="a secret has a real name"
    ),
    pytest.param(AGENT, "spec.skills", [{"name": "Haiku"}], "the name of a Skill", id="a skill has a real name"),
    pytest.param(AGENT, "spec.peers", [{"name": "a"}], "must not hold the agent itself", id="nobody calls himself"),
    pytest.param(AGENT, "spec.peers", [{"name": "b"}, {"name": "b"}], "must differ in name", id="a peer is named once"),
    pytest.param(AGENT, "spec.memory", {"storage": {"size": "much"}}, "such as 1Gi", id="a size is a quantity"),
    pytest.param(
        AGENT,
        "spec.memory",
        {"storage": {"ephemeral": True, "retain": True}},
        "remove retain",
        id="what is ephemeral cannot be retained",
    ),
    pytest.param(AGENT, "spec.compaction", {"mode": "Always"}, "Enforce", id="a mode is one of three"),
    pytest.param(
        AGENT, "spec.compaction", {"prune": {"head": 3000, "tail": 1000}}, "must be below", id="a cut result is shorter"
    ),
    pytest.param(AGENT, "spec.compaction", {"pin": {"kinds": ["All"]}}, "Policy", id="pins are of known kinds"),
    pytest.param(
        AGENT,
        "spec.compaction",
        {"trigger": {"contextFraction": "1.5"}},
        'such as "0.8"',
        id="a fraction is at most one",
    ),
    pytest.param(
        AGENT, "spec.compaction", {"trigger": {"contextFraction": "0.0"}}, "above 0", id="a fraction is above zero"
    ),
    pytest.param(AGENT, "spec.auth", {"clients": [{"name": "A"}]}, "part of a Secret's name", id="a client's name"),
    pytest.param(
        AGENT, "spec.resources", {"requests": {"memory": "lots"}}, "such as 256Mi", id="a request is a quantity"
    ),
    pytest.param(AGENT, "spec.limits", {"maxTurnSeconds": 0}, "greater than or equal to 1", id="a limit is above zero"),
    pytest.param(AGENT, "spec.drainSeconds", 0, "greater than or equal to 1", id="a drain takes time"),
    pytest.param(AGENT, "spec.image", "my image", "an image reference", id="an image is a reference"),
    pytest.param(AGENT, "spec.approvals", {"by": "Anybody"}, "Unsupported value", id="an approver is of a kind"),
    pytest.param(
        AGENT, "spec.approvals", {"expiry": "soon"}, "such as 30m or 72h", id="an approval ends after a duration"
    ),
    pytest.param(
        AGENT, "spec.limits", {"stallSeconds": -1}, "should be greater than or equal to 0", id="silence is long"
    ),
    pytest.param(
        AGENT,
        "spec.a2a",
        {"skills": [{"id": "look up", "description": "d"}]},
        "use letters, digits",
        id="a skill's id is part of a tool's name",
    ),
    pytest.param(
        AGENT,
        "spec.a2a",
        {"skills": [{"id": "a", "description": "d", "outputMediaType": "json"}]},
        "such as application/json",
        id="a result has a media type",
    ),
    pytest.param(AGENT, "spec.iconURL", "icon.png", "absolute http or https", id="a picture has an address"),
    pytest.param(AGENT, "spec.serviceAccountName", "A B", "of a ServiceAccount", id="an account has a real name"),
    pytest.param(
        AGENT,
        "spec.network",
        {"policy": "None", "egress": [{"to": {"podSelector": {}}, "ports": [{"port": 1}]}]},
        "would do nothing",
        id="additions to no policy",
    ),
    pytest.param(
        AGENT,
        "spec.network",
        {"egress": [{"to": {"podSelector": {}, "ipBlock": {"cidr": "10.0.0.0/8"}}, "ports": [{"port": 1}]}]},
        "either ipBlock or podSelector",
        id="a range and pods at once",
    ),
    pytest.param(
        AGENT, "spec.network", {"egress": [{"to": {"podSelector": {}}}]}, "ports: Required", id="egress without a port"
    ),
    pytest.param(
        AGENT,
        "spec.a2a",
        {"push": {"allowedHosts": ["https://hooks.example.com"]}},
        "no scheme and no path",
        id="a receiver is a host",
    ),
    pytest.param(AGENT, "spec.a2a", {"push": {"enabled": "yes"}}, "must be of type boolean", id="push is on or off"),
    pytest.param(AGENT, "spec.a2a.dialects", ["0.3"], "must hold '1.0'", id="every agent speaks 1.0"),
    pytest.param(AGENT, "spec.a2a.dialects", ["1.0", "0.9"], "supported values", id="a version that nobody speaks"),
    pytest.param(
        AGENT, "spec.a2a.publicURL", "agents.example.com", "absolute http", id="a public address has a scheme"
    ),
    pytest.param(
        AGENT, "spec.a2a.publicURL", "https://me@agents.example.com", "without user", id="a public address has no user"
    ),
    pytest.param(
        AGENT, "spec.a2a.publicURL", "http://127.0.0.1:8080/x", "others can reach", id="loopback is not public"
    ),
    pytest.param(AGENT, "spec.a2a.publicURL", "https://[::1]", "others can reach", id="loopback in IPv6 neither"),
    pytest.param(AGENT, "spec.a2a.publicURL", "http://localhost", "others can reach", id="nor by its name"),
    pytest.param(SKILL, "metadata.name", "two--hyphens", "single hyphens", id="a skill's name has single hyphens"),
    pytest.param(
        SKILL,
        "spec.source",
        {"git": {"url": "https://git.example.com/skills", "commit": "main"}},
        "40 hexadecimal digits of a commit",
        id="a branch is no commit",
    ),
    pytest.param(
        SKILL,
        "spec.source",
        {"git": {"url": "https://me:x@git.example.com/skills", "commit": "a" * 40}},
        "without user, query or fragment",
        id="a repository's address holds no password",
    ),
    pytest.param(
        SKILL,
        "spec.source",
        {"git": {"url": "https://git.example.com/skills", "commit": "a" * 40, "path": "../etc"}},
        "without '..'",
        id="a path stays in its repository",
    ),
    pytest.param(
        SKILL,
        "spec.source",
        {"image": {"reference": "registry.example.com/skills:1"}},
        "must end with @sha256:",
        id="a tag is no image",
    ),
    pytest.param(
        SKILL, "spec.permissions", {"tools": ["refund"]}, "must be <server>/<tool>", id="a skill needs tools of servers"
    ),
    pytest.param(
        SKILL,
        "spec.permissions",
        {"egress": [{"host": "a", "ipBlock": {"cidr": "10.0.0.0/8"}, "ports": [1]}]},
        "exactly one of host and ipBlock",
        id="a skill's way out has one end",
    ),
    pytest.param(
        SKILL,
        "spec.permissions",
        {"egress": [{"host": "https://a", "ports": [1]}]},
        "a host's name without scheme",
        id="a skill's host is no address",
    ),
    pytest.param(
        SKILL, "spec.source", {}, "exactly one of inline, configMap, git and image", id="a skill has a source"
    ),
    pytest.param(
        SKILL,
        "spec.source",
        {"inline": {"files": {"SKILL.md": "x"}}, "configMap": {"name": "x"}},
        "exactly one of inline, configMap, git and image",
        id="a skill has one source",
    ),
    pytest.param(
        SKILL, "spec.source.inline.files", {"README.md": "x"}, "needs a file SKILL.md", id="a skill has its document"
    ),
    pytest.param(SERVER, "spec", {}, "exactly one of remote and workload", id="a server is somewhere"),
    pytest.param(SERVER, "spec.remote.url", "ftp://x/mcp", "absolute http or https", id="a server speaks HTTP"),
    pytest.param(SERVER, "spec", {"workload": {}}, "workload.image: Required", id="a workload has an image"),
    pytest.param(
        SERVER,
        "spec",
        {"workload": {"image": "x", "env": [{"name": "PORT", "value": "1"}]}},
        "set workload.port instead",
        id="the port is the operator's to set",
    ),
    pytest.param(
        SERVER,
        "spec",
        {"workload": {"image": "x", "imagePullSecrets": [{"name": "Team"}]}},
        "must be the name of a Secret",
        id="a server pulls with a Secret",
    ),
    pytest.param(
        SERVER, "spec", {"workload": {"image": "x", "podTemplate": []}}, "of type object", id="a server's patch is one"
    ),
    pytest.param(
        SERVER, "spec", {"workload": {"image": "x", "path": "mcp"}}, "start with '/'", id="a path is absolute"
    ),
    pytest.param(
        SERVER, "spec", {"workload": {"image": "x", "port": 80}}, "greater than or equal to 1024", id="no root ports"
    ),
]


@pytest.mark.parametrize(("base", "path", "value", "says"), BAD)
def test_bad_input_is_refused_with_its_remedy(space, refusal, base, path, value, says):
    with pytest.raises(refusal) as refused:
        space.create(_changed(base, path, value))
    assert says in refused.value.message


def test_a_volume_cannot_shrink_or_change_its_class(space, refusal):
    space.apply(_changed(AGENT, "spec.memory", {"storage": {"size": "2Gi", "storageClassName": "fast"}}))
    with pytest.raises(refusal, match="can only grow"):
        space.apply(_changed(AGENT, "spec.memory", {"storage": {"size": "1Gi", "storageClassName": "fast"}}))
    with pytest.raises(refusal, match="cannot change on an existing volume"):
        space.apply(_changed(AGENT, "spec.memory", {"storage": {"size": "2Gi", "storageClassName": "slow"}}))
    with pytest.raises(refusal, match="can only grow"):
        space.apply(AGENT)


@pytest.mark.parametrize("base", [AGENT, SKILL, SERVER], ids=["Agent", "Skill", "McpServer"])
def test_an_unknown_field_is_refused_by_a_strict_client(admin, space, refusal, base):
    with pytest.raises(refusal, match=r'unknown field "spec\.nonsense"'):
        _create_strictly(admin, space, _changed(base, "spec.nonsense", "x"))


def test_an_absent_object_is_created_and_an_existing_one_is_not_touched(space, refusal):
    """What the operator's create relies on, and Kubernetes does not document: resourceVersion "1" in an apply."""
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "resourceVersion": "1"}}
    space.apply({**body, "data": {"a": "1"}})
    with pytest.raises(refusal) as refused:
        space.apply({**body, "data": {"a": "2"}})
    assert refused.value.status == 409
    assert space.get("ConfigMap", "x")["data"] == {"a": "1"}
