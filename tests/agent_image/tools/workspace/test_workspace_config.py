"""The section `workspace` of agent.json: its defaults, what it refuses, and whether its tools may ask a person."""

from typing import Any

import pytest
from pydantic import ValidationError

from fleetwright_agent.config.layout import Layout
from fleetwright_agent.config.workspace import EditApproval, ShellApproval, Workspace, WorkspaceTool

URL = "http://coder-workspace.team.svc.cluster.local:7880"


def workspace(**fields: Any) -> Workspace:
    return Workspace.model_validate({"url": URL, **fields})


def test_workspace_defaults_to_all_tools_that_ask() -> None:
    plain = workspace()
    assert plain.tools == tuple(WorkspaceTool)
    assert plain.approvals.edits is EditApproval.ASK
    assert plain.approvals.shell is ShellApproval.TIERED
    assert (plain.shell.timeout_seconds, plain.shell.allow, plain.web_hosts) == (30, (), ())


def test_workspace_token_is_beside_the_other_tokens() -> None:
    layout = Layout()
    assert layout.workspace_token_file == layout.auth / "workspace"


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"url": "ftp://host:1"}, "url"),
        ({"url": f"{URL}/path"}, "url"),
        ({"tools": []}, "tools"),
        ({"tools": ["teleport"]}, "tools"),
        ({"approvals": {"edits": "Never"}}, "approvals.edits"),
        ({"approvals": {"shell": "Never"}}, "approvals.shell"),
        ({"shell": {"timeoutSeconds": 0}}, "shell.timeoutSeconds"),
        ({"shell": {"allow": ["npm test; rm x"]}}, "shell.allow"),
        ({"shell": {"allow": ["npm  test"]}}, "shell.allow"),
        ({"shell": {"allow": ["$HOME/x"]}}, "shell.allow"),
        ({"webHosts": ["https://docs.example.com"]}, "webHosts"),
        ({"webHosts": ["docs.*.com"]}, "webHosts"),
        ({"network": {}}, "network"),
    ],
)
def test_workspace_refuses_a_wrong_field(fields: dict[str, Any], named: str) -> None:
    with pytest.raises(ValidationError) as refused:
        workspace(**fields)
    assert ".".join(str(part) for part in refused.value.errors()[0]["loc"]).startswith(named)


@pytest.mark.parametrize(
    ("tools", "edits", "shell", "asks"),
    [
        (["read_file", "webfetch"], "Ask", "Ask", False),
        (["edit_file"], "Ask", "Auto", True),
        (["write_file"], "Ask", "Auto", True),
        (["edit_file"], "Auto", "Auto", False),
        (["bash"], "Ask", "Auto", False),
        (["bash"], "Ask", "Tiered", True),
        (["bash"], "Ask", "Ask", True),
    ],
)
def test_workspace_may_ask_follows_from_its_tools(tools: list[str], edits: str, shell: str, asks: bool) -> None:
    assert workspace(tools=tools, approvals={"edits": edits, "shell": shell}).may_ask is asks


def test_workspace_tools_are_distinct() -> None:
    assert workspace(tools=["bash", "bash"]).tools == (WorkspaceTool.BASH,)
