"""The command and the program of the guide "The first agent on a cluster", against an agent."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from tests.support.cli.dev_run import run_fleetwright
from tests.support.cli.fleet import Fleet
from tests.support.cli.kubectl import with_kubectl
from tests.support.http_server import serve_in_thread
from tests.support.machine import ceiling

GUIDE = Path(__file__).parents[2] / "docs/guides/first-agent-on-a-cluster.md"


def program() -> str:
    return GUIDE.read_text().partition("```python\n# call.py\n")[2].partition("```")[0]


def test_command_of_the_guide_calls_an_agent_in_one_line(fleet: Fleet, kubectl: Path) -> None:
    section = GUIDE.read_text().partition("## Call it")[2]
    program, command, *further = section.partition("```\n")[2].partition("```")[0].splitlines()[0].partition(" run ")
    assert (program, command, len(further)) == ("kubectl fleetwright", " run ", 1)
    ended = run_fleetwright("run", *shlex.split(further[0]), environment=with_kubectl(fleet, kubectl))
    assert (ended.returncode, bool(ended.stdout.strip())) == (0, True), ended.stderr
    assert "--namespace shop get secret support-client-default" in (kubectl / "calls").read_text()


@pytest.mark.process
@pytest.mark.parametrize(
    ("token", "wanted"),
    [
        pytest.param("", (0, "TASK_STATE_COMPLETED"), id="the token of the agent"),
        pytest.param("another", (1, "HTTP Error 401"), id="another token"),
    ],
)
def test_program_of_the_guide_calls_an_agent(fleet: Fleet, token: str, wanted: tuple[int, str]) -> None:
    address = fleet.address["url"]
    card = httpx.get(f"{address}/.well-known/agent-card.json", trust_env=False, timeout=ceiling()).json()

    async def protected(request: Request) -> Response:
        known = request.headers.get("authorization", "").startswith("Bearer ")
        return JSONResponse(card) if known else JSONResponse({}, 401)

    with serve_in_thread(Starlette(routes=[Route("/.well-known/agent-card.json", protected)])) as port:
        changes = {"AGENT_URL": f"http://127.0.0.1:{port}", "AGENT_TOKEN": token or fleet.address["token"]}
        ended = subprocess.run(
            [sys.executable, "-"], input=program(), env={**os.environ, **changes}, capture_output=True, text=True,
            timeout=ceiling(), check=False,
        )  # fmt: skip
    code, text = wanted
    assert (ended.returncode, text in ended.stdout + ended.stderr) == (code, True), ended.stderr
