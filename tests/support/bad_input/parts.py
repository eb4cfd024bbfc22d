"""Skills and McpServers that the rules of their CRDs refuse. `agents` has the Agents."""

from typing import Any

import pytest
from tests.support.bad_input.whole import SERVER, SKILL

_COMMIT = {"url": "https://git.example.com/skills", "commit": "a" * 40}
GIT_SERVERS: list[tuple[dict[str, Any], str, str]] = [
    (
        {"caSecretRef": {"name": "A b"}},
        "caSecretRef.name must be the name of a Secret",
        "an authority of git has a real name",
    ),
    (
        {"caSecretRef": {"name": "ca", "key": "a/b"}},
        "caSecretRef.key may contain letters",
        "a key of an authority is no path",
    ),
    (
        {"caSecretRef": {"name": "ca", "key": ".."}},
        "caSecretRef.key may contain letters",
        "a key of an authority does not climb",
    ),
    ({"caSecretRef": {"key": "ca.crt"}}, "caSecretRef.name: Required", "an authority is in a Secret"),
    (
        {"proxyURL": "http://u:p@proxy:1"},
        "proxyURL must be the http or https address",
        "a proxy of git holds no password",
    ),
    ({"proxyURL": "http://proxy:1/x"}, "proxyURL must be the http or https address", "a proxy of git has no path"),
    ({"proxyURL": "socks5://proxy:1"}, "proxyURL must be the http or https address", "a proxy of git speaks HTTP"),
    (
        {"url": "http://git.example.com/skills", "secretRef": {"name": "git"}, "proxyURL": "http://proxy:1"},
        "url must be an https address if secretRef and proxyURL are set",
        "a proxy reads no credentials",
    ),
]
"""The fields of a git server, the message about them, and the rule. Workspaces have the same fields and rules."""

BAD_PARTS = [
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
    *(
        pytest.param(SKILL, "spec.source", {"git": {**_COMMIT, **fields}}, f"source.git.{says}", id=rule)
        for fields, says, rule in GIT_SERVERS
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
    pytest.param(
        SERVER,
        "spec.remote.proxyURL",
        "http://u:p@proxy:1",
        "remote.proxyURL must be the http or https address of a proxy without user and path",
        id="a server's proxy holds no password",
    ),
    pytest.param(
        SERVER,
        "spec",
        {
            "remote": {
                "url": "http://tools.example.com/mcp",
                "headersFrom": [{"name": "X-Key", "secretKeyRef": {"name": "tools", "key": "key"}}],
                "proxyURL": "http://proxy:1",
            }
        },
        "remote.url must be an https address if headersFrom and proxyURL are set",
        id="a server's proxy reads no header from a Secret",
    ),
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
