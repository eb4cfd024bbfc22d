"""Workspaces of `fleetwright dev`: what each process may see, and what is left out without a sandbox."""

import hashlib
import json
import secrets
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from e2e.cluster.ports import free_port
from tests.support.machine import ceiling

from fleetwright_api.spec.agent import AgentSpec, parse_agent
from fleetwright_cli.dev.hosts import declared_hosts, without_declared_hosts
from fleetwright_cli.dev.manifests import InvalidFleet, LocalFleet
from fleetwright_cli.dev.processes import Processes
from fleetwright_cli.dev.workspace.folders import parse_folders
from fleetwright_cli.dev.workspace.local_workspaces import LocalWorkspaces, find_bwrap, workspace_specs
from fleetwright_cli.dev.workspace.sandbox import PythonPlace, WorkspacePlace, runner_command, shell_command
from fleetwright_cli.dev.workspace.task_cgroups import TaskCgroups

PLACE = WorkspacePlace(
    root=Path("/home/me/shop"),
    state=Path("/state/undo"),
    home=Path("/state/home"),
    sockets=Path("/tmp/sockets"),
    program=Path("/state/program"),
    port=7880,
)
PYTHON = PythonPlace(Path("/opt/venv/bin/python"), (Path("/opt/venv"), Path("/home/me/python")), Path("/src"))


def _fleet(**workspace: Any) -> LocalFleet:
    spec = {"instructions": "x", "model": {"name": "offline"}, "workspace": {"image": "node:22", **workspace}}
    agent = parse_agent({"metadata": {"name": "desk", "namespace": "dev"}, "spec": spec})
    return LocalFleet(agents={"desk": agent}, skills={}, servers={})


def _workspaces(tmp_path: Path, processes: Processes | None = None, **options: Any) -> LocalWorkspaces:
    said: list[str] = []
    chosen = {"folders": {}, "unsafe": False, "find_sandbox": lambda: None} | options
    made = LocalWorkspaces(tmp_path, processes or Processes(tmp_path / "logs"), said.append, **chosen)
    made.said = said  # type: ignore[attr-defined]  # tests read what a user would
    return made


def _pairs(command: list[str], option: str) -> dict[str, str]:
    return {command[i + 1]: command[i + 2] for i, word in enumerate(command) if word == option}


def test_shell_sees_its_own_folders_only() -> None:
    command = shell_command(PLACE, PYTHON, bwrap="/usr/bin/bwrap")
    assert _pairs(command, "--bind") == {
        "/home/me/shop": "/workspace",
        "/state/home": "/home/workspace",
        "/tmp/sockets": "/run/fleetwright",
    }
    shown = _pairs(command, "--ro-bind") | _pairs(command, "--ro-bind-try")
    assert {"/home/me/python", "/src", "/state/program", "/usr"} <= shown.keys()
    assert not {"/", "/home", "/home/me", "/root", "/etc", "/state", "/var"} & shown.keys()
    assert {"--unshare-all", "--as-pid-1", "--clearenv", "--die-with-parent"} <= set(command)
    assert "--share-net" not in command


def test_runner_has_the_network_and_its_state() -> None:
    command = runner_command(PLACE, PYTHON, bwrap="/usr/bin/bwrap")
    assert _pairs(command, "--bind")["/state/undo"] == "/var/lib/fleetwright"
    assert "--unshare-all" not in command
    assert "--unshare-net" not in command
    assert "--listen=127.0.0.1:7880" in command


def test_commands_without_a_sandbox_use_real_paths() -> None:
    assert runner_command(PLACE, PYTHON, bwrap=None)[:5] == [
        "/opt/venv/bin/python", "-S", "-m", "fleetwright_workspace.runner", "--root=/home/me/shop",
    ]  # fmt: skip
    assert "--root=/home/me/shop" in shell_command(PLACE, PYTHON, bwrap=None)


@pytest.mark.parametrize(
    ("tools", "wanted"),
    [
        pytest.param(None, 8, id="all tools"),
        pytest.param(["read_file", "bash"], 1, id="two tools"),
        pytest.param(["bash"], None, id="only bash"),
    ],
)
def test_bash_is_off_without_a_sandbox(tmp_path: Path, tools: list[str] | None, wanted: int | None) -> None:
    workspaces = _workspaces(tmp_path)
    fleet = workspaces.adjusted(_fleet(**({"tools": tools} if tools else {})))
    workspace = fleet.agents["desk"].spec.workspace
    assert (None if workspace is None else len(workspace.tools or ())) == wanted
    assert workspace is None or "bash" not in (workspace.tools or ())
    workspaces.tell(fleet)
    assert any("--unsafe-workspace" in line for line in workspaces.said) is (wanted is not None)  # type: ignore[attr-defined]
    assert not any(name.startswith("shell-") for name in workspaces.wanted(fleet))
    workspaces.close()


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"unsafe": True}, id="the user permits it"),
        pytest.param({"find_sandbox": lambda: "/usr/bin/bwrap"}, id="there is a sandbox"),
    ],
)
def test_bash_stays_on(tmp_path: Path, options: dict[str, Any]) -> None:
    workspaces = _workspaces(tmp_path, **options)
    assert workspaces.adjusted(_fleet()) == _fleet()
    assert set(workspaces.wanted(_fleet())) == {"workspace-desk", "shell-desk"}
    workspaces.close()


def test_dev_reports_ignored_egress(tmp_path: Path) -> None:
    egress = [{"to": {"host": "packages.example.com"}, "ports": [{"port": 443}]}]
    for options, is_said in (({"find_sandbox": lambda: "/usr/bin/bwrap"}, True), ({"unsafe": True}, False)):
        workspaces = _workspaces(tmp_path, **options)
        workspaces.tell(_fleet(network={"egress": egress}))
        assert any("have no network in fleetwright dev" in line for line in workspaces.said) is is_said  # type: ignore[attr-defined]
        workspaces.close()


def test_sandbox_is_looked_for_only_if_needed(tmp_path: Path) -> None:
    def fail() -> str | None:
        raise AssertionError("no agent has a workspace")

    workspaces = _workspaces(tmp_path, find_sandbox=fail)
    agents = {name: replace(agent, spec=_without_workspace(agent.spec)) for name, agent in _fleet().agents.items()}
    assert workspaces.wanted(workspaces.adjusted(LocalFleet(agents=agents, skills={}, servers={}))) == {}
    workspaces.close()


def _without_workspace(spec: AgentSpec) -> AgentSpec:
    return replace(spec, workspace=None)


def test_folder_of_an_unknown_agent_is_refused(tmp_path: Path) -> None:
    workspaces = _workspaces(tmp_path, folders={"other": tmp_path})
    with pytest.raises(InvalidFleet, match="--workspace other: no Agent"):
        workspaces.adjusted(_fleet())
    workspaces.close()


@pytest.mark.parametrize(
    ("words", "error"),
    [
        pytest.param(["desk"], "is not AGENT=FOLDER", id="no folder"),
        pytest.param(["=/tmp"], "is not AGENT=FOLDER", id="no agent"),
        pytest.param(["desk=/no/such/folder"], "is not a folder", id="missing folder"),
        pytest.param(["desk=/tmp", "desk=/usr"], "is named twice", id="twice"),
    ],
)
def test_folder_option_is_refused(words: list[str], error: str) -> None:
    with pytest.raises(ValueError, match=error):
        parse_folders(words)


def test_folder_option_names_agents(tmp_path: Path) -> None:
    assert parse_folders([f"desk={tmp_path}", "cook=/usr"]) == {"desk": tmp_path.resolve(), "cook": Path("/usr")}


@pytest.mark.parametrize(
    ("url", "is_declared"),
    [
        pytest.param("https://git.example.com/x", True, id="a remote server"),
        pytest.param("http://127.0.0.1/x", False, id="a local server"),
    ],
)
def test_proxy_of_a_git_server_is_not_used(url: str, is_declared: bool) -> None:
    git = {"url": url, "proxyURL": "http://proxy.example.com:3128"}
    spec = _fleet(source={"git": git}).agents["desk"].spec
    assert declared_hosts(spec, {}) == ({"workspace.source.git": url} if is_declared else {})


@pytest.mark.parametrize("field", ["secretRef", "caSecretRef"])
def test_source_that_needs_a_secret_is_refused(tmp_path: Path, field: str) -> None:
    source = {"git": {"url": "https://git.example.com/shop.git", field: {"name": "company"}}}
    workspaces = _workspaces(tmp_path)
    with pytest.raises(InvalidFleet, match=rf"spec\.workspace\.source\.git\.{field}: a local run has no Secrets"):
        workspaces.start(
            _fleet(source=source), {"workspace-desk"}, ports={"desk": 1}, tokens={"workspace.desk": "secret"}
        )
    workspaces.close()


def test_hosts_of_a_workspace_are_declared_hosts() -> None:
    source = {"git": {"url": "https://git.example.com/shop.git"}}
    spec = _fleet(source=source, web={"hosts": ["docs.example.com"]}).agents["desk"].spec
    assert declared_hosts(spec, {}) == {
        "workspace.source.git": "https://git.example.com/shop.git",
        "workspace.web.hosts[docs.example.com]": "https://docs.example.com",
    }
    workspace = without_declared_hosts(spec, {}).workspace
    assert workspace is not None
    assert (workspace.source, workspace.web.hosts) == (None, ())


Started = tuple[Callable[[str], list[dict[str, Any]]], Path]


@pytest.fixture(params=["sandbox", "unsafe"])
def started(request: pytest.FixtureRequest, process_ring: None, tmp_path: Path) -> Iterator[Started]:
    """Start the workspace of one agent, and provide a function that runs a command in it."""
    bwrap = find_bwrap()
    if request.param == "sandbox" and bwrap is None:
        pytest.skip("needs bubblewrap")
    options: dict[str, Any] = {"find_sandbox": lambda: bwrap} if request.param == "sandbox" else {"unsafe": True}
    folder = tmp_path / "shop"
    folder.mkdir()
    token = secrets.token_urlsafe(16)
    with Processes(tmp_path / "logs") as processes:
        workspaces = _workspaces(tmp_path, processes, folders={"desk": folder}, **options)
        fleet, ports = _fleet(), {"desk": free_port()}
        assert list(workspace_specs(fleet)) == ["desk"]
        wanted = workspaces.wanted(fleet)
        workspaces.start(fleet, wanted.keys(), ports=ports, tokens={"workspace.desk": token})

        def run(command: str) -> list[dict[str, Any]]:
            body = {"id": secrets.token_hex(8), "command": command, "timeout_seconds": 20}
            url = f"http://127.0.0.1:{ports['desk']}/v1/exec"
            answer = httpx.post(
                url, json=body, headers={"Authorization": f"Bearer {token}"}, trust_env=False, timeout=ceiling()
            )
            return [json.loads(line) for line in answer.text.splitlines()]

        yield run, folder
        workspaces.close()


def test_command_changes_the_chosen_folder(started: Started) -> None:
    run, folder = started
    assert run("echo hello >made.txt; id -u >/dev/null")[-1]["end"]["exit"] == 0
    assert (folder / "made.txt").read_text() == "hello\n"


@pytest.mark.parametrize("started", ["sandbox"], indirect=True)
def test_sandbox_hides_everything_else(started: Started, tmp_path: Path) -> None:
    run, _ = started
    (tmp_path / "secret").write_text("secret")
    lines = run(
        f"cat {tmp_path}/secret /etc/shadow; ls /var/lib/fleetwright; touch /usr/made; kill -9 1;"
        " ls /sys/class/net 2>/dev/null; ls /proc/1/root/home; pwd; echo $$; cat /proc/net/dev | tail -n +3 | wc -l"
    )
    text = "".join(line.get("text", "") for line in lines if line.get("stream") == "stdout").split("\n")
    assert text[0] == "workspace"  # the home folder of the sandbox
    assert text[1] == "/workspace"
    assert int(text[2]) < 50  # process ids of its own
    assert text[3] == "1"  # only the loopback interface
    assert run("echo still here")[0]["text"] == "still here\n"


def test_missing_limit_for_root_is_said_once(process_ring: None, tmp_path: Path) -> None:
    with Processes(tmp_path / "logs") as processes:
        cgroups = TaskCgroups(1, 4000, mounts=tmp_path, own="")
        workspaces = _workspaces(tmp_path, processes, unsafe=True, cgroups=cgroups)
        fleet, tokens = _fleet(), {"workspace.desk": secrets.token_urlsafe(16)}
        for _ in range(2):
            workspaces.start(fleet, workspaces.wanted(fleet).keys(), ports={"desk": free_port()}, tokens=tokens)
        said = [line for line in workspaces.said if "fork bomb" in line]  # type: ignore[attr-defined]
        assert len(said) == 1
        assert said[0].endswith("run fleetwright dev as another user")
        workspaces.close()


def test_state_has_digests_and_no_token(started: Started, tmp_path: Path) -> None:
    found = (tmp_path / "agents/desk/workspace-state/tokens").read_text().strip()
    assert len(found) == len(hashlib.sha256().hexdigest())
