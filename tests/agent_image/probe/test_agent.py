"""`fleetwright-agent probe agent` as a pod runs it: the problems that stop a revision, and those that do not."""

import json
import socket
import subprocess
from collections.abc import Callable
from typing import Any

import pytest
from tests.support.agent.fork_server import ForkServer

Probe = Callable[[], subprocess.CompletedProcess[str]]


@pytest.fixture
def probe(fork_server: ForkServer, mounted: Any) -> Probe:
    """Return a function that runs the command on the mounted files."""
    return lambda: fork_server.run("probe", "agent", "--root", str(mounted.layout.root))


def with_key(mounted: Any, documents: Any, key: str | None) -> None:
    model = documents()["model"] | {"apiKeyFile": "secrets/openai/api-key"}
    mounted.write(mounted.layout.config_file, documents(model=model))
    if key is not None:
        file = mounted.layout.secret("secrets/openai/api-key")
        file.parent.mkdir(parents=True)
        file.write_text(key)


def test_agent_probe_passes_without_reachable_dependencies(probe: Probe, mounted: Any, documents: Any) -> None:
    with_key(mounted, documents, "sk-secret")
    ended = probe()
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout.splitlines()[-1]) == {"revision": "0123456789", "skills": 0, "mcpServers": 0}
    assert list(mounted.layout.memory.iterdir()) == [], "the probe leaves no memory behind"
    assert "sk-secret" not in ended.stdout + ended.stderr


def test_agent_probe_leaves_the_workspace_alone(probe: Probe, mounted: Any, documents: Any) -> None:
    """The preflight has no workspace of its own: it neither needs the runner nor calls it."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        mounted.write(mounted.layout.config_file, documents(workspace={"url": url}))
        ended = probe()
        listener.setblocking(False)
        with pytest.raises(BlockingIOError):
            listener.accept()
    assert ended.returncode == 0, ended.stderr
    assert list(mounted.layout.memory.iterdir()) == []


FAULTS: list[Any] = [
    pytest.param(
        lambda mounted, documents: mounted.layout.config_file.write_text("{"),
        "agent.json is not valid",
        id="a configuration that is no JSON",
    ),
    pytest.param(
        lambda mounted, documents: with_key(mounted, documents, None),
        "secrets/openai/api-key, named by model.api_key_file, cannot be read: No such file or directory",
        id="a key that is not mounted",
    ),
    pytest.param(
        lambda mounted, documents: with_key(mounted, documents, "\n"),
        "secrets/openai/api-key, named by model.api_key_file, is empty",
        id="a key that is empty",
    ),
    pytest.param(
        lambda mounted, documents: mounted.write(
            mounted.layout.config_file,
            documents(skills=[{"name": "haiku", "description": "Writes.", "digest": "sha256:0"}]),
        ),
        "skill 'haiku' is not mounted",
        id="a skill that is not mounted",
    ),
    pytest.param(
        lambda mounted, documents: (
            mounted.write(
                mounted.layout.card_file, {"name": "echo", "supportedInterfaces": [{"url": "http://[::1]/a2a"}]}
            ),
            mounted.write(mounted.layout.config_file, documents(requireRoutableUrl=True)),
        ),
        "the card names http://[::1]/a2a, which others cannot reach",
        id="a card that leads its reader to itself",
    ),
    pytest.param(
        lambda mounted, documents: mounted.layout.callers_file.unlink(),
        "callers.json cannot be read",
        id="callers that are not mounted",
    ),
    pytest.param(
        lambda mounted, documents: mounted.write(mounted.layout.card_file, []),
        "agent-card.json is not valid",
        id="a card that is none",
    ),
]


@pytest.mark.parametrize(("break_it", "says"), FAULTS)
def test_agent_probe_refuses_an_unusable_agent_in_one_line(
    probe: Probe, mounted: Any, documents: Any, break_it: Callable[..., object], says: str
) -> None:
    break_it(mounted, documents)
    ended = probe()
    assert ended.returncode == 2, ended.stderr
    assert says in ended.stderr.splitlines()[-1]
    assert ended.stdout == ""
