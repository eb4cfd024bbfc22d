"""`fleetwright delegations` against an agent that serves its calls over HTTP."""

import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from tests.support.cli.dev_run import run_fleetwright
from tests.support.cli.fleet import environment
from tests.support.http_server import serve_in_thread

from fleetwright_agent.storage.open_questions import PeerCallStatus
from fleetwright_cli.administration.delegations import STATUSES, delegations_table

Run = Callable[..., CompletedProcess[str]]
CALLS: list[dict[str, Any]] = [
    {
        "owner": "client:shop", "taskId": "t2", "peer": "n/cook", "peerTaskId": None, "status": "Failed",
        "request": "fry\x1b[2J\n" + "x" * 60, "result": "", "error": "cook could not be asked",
        "beganAt": "2026-11-20T10:00:00Z", "endedAt": "2026-11-20T10:00:01Z",
    },
    {
        "owner": "client:a", "taskId": "t1", "peer": "n/cook", "peerTaskId": "17d2c3f0-9c1e", "status": "Dispatched",
        "request": "boil", "result": "", "error": "", "beganAt": "2026-11-20T09:00:00Z", "endedAt": None,
    },
]  # fmt: skip


def test_delegations_table_has_one_row_per_call() -> None:
    table = delegations_table(CALLS, datetime(2026, 11, 20, 12, tzinfo=UTC)).splitlines()
    cells = [[cell.strip() for cell in line.split("   ") if cell.strip()] for line in table]
    assert cells == [
        ["AGE", "STATUS", "PEER", "OWNER", "TASK", "PEER TASK", "REQUEST", "RESULT"],
        ["2h", "Failed", "n/cook", "client:shop", "t2", "-", f"fry\ufffd[2J {'x' * 31}…", "cook could not be asked"],
        ["3h", "Dispatched", "n/cook", "client:a", "t1", "17d2c3f0", "boil", "-"],
    ]


def test_status_option_has_the_statuses_of_agents() -> None:
    assert tuple(status.value for status in PeerCallStatus) == STATUSES


async def answer(request: Request) -> Response:
    assert request.headers["authorization"] == "Bearer secret"
    wanted = request.query_params
    assert set(wanted) <= {"owner", "status"}
    found = [each for each in CALLS if all(each[name] == value for name, value in wanted.items())]
    return JSONResponse({"delegations": found})


@pytest.fixture
def delegations(tmp_path: Path, process_ring: None) -> Iterator[Run]:
    (tmp_path / "token").write_text("secret")
    with serve_in_thread(Starlette(routes=[Route("/admin/delegations", answer)])) as port:

        def run(*words: str) -> CompletedProcess[str]:
            address = ["--url", f"http://127.0.0.1:{port}", "--token-file", str(tmp_path / "token")]
            return run_fleetwright("delegations", *address, *words, environment=environment(tmp_path))

        yield run


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        pytest.param([], ["t2", "t1"], id="all"),
        pytest.param(["--owner", "client:a"], ["t1"], id="of an owner"),
        pytest.param(["--status", "Failed"], ["t2"], id="with a status"),
        pytest.param(["--owner", "client:a", "--status", "Failed"], [], id="none"),
    ],
)
def test_delegations_options_filter_the_list(delegations: Run, words: list[str], wanted: list[str]) -> None:
    ended = delegations("desk", *words, "-o", "json")
    assert [each["taskId"] for each in json.loads(ended.stdout)] == wanted, ended.stderr
    table = delegations("desk", *words)
    assert [line.split()[4] for line in table.stdout.splitlines()[1:]] == wanted
    assert table.stderr.startswith("No calls to other agents") is not bool(wanted)


def test_delegations_name_the_wrong_status(delegations: Run) -> None:
    ended = delegations("desk", "--status", "Lost")
    assert (ended.returncode, "Invalid value for '--status'" in ended.stderr) == (2, True)
