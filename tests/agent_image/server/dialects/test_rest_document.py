"""HTTP+JSON against its OpenAPI document: schemathesis generates the requests and checks the responses.

Two checks are disabled. Valid requests may be rejected because of the state of a task. Fields of a wrong type may be
accepted, because protobuf JSON accepts numbers for strings and strings for numbers.
"""

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.support.machine import ceiling

from fleetwright_a2a.bindings.rest import _PATHS

pytestmark = pytest.mark.starts_first

DOCUMENT = Path(__file__).with_name("rest.openapi.yaml")
LEFT_OUT = "positive_data_acceptance,negative_data_rejection"
SECONDS = 3


def test_openapi_document_has_every_path_and_verb() -> None:
    paths = yaml.safe_load(DOCUMENT.read_text())["paths"]
    described = {(verb.upper(), path) for path, verbs in paths.items() for verb in verbs if verb != "parameters"}
    assert described == {(verb, path) for verb, path, _, _ in _PATHS}


def test_r8_every_response_conforms_to_the_openapi_document(
    run_agent: Callable[..., Any], python_environment: Callable[[str], Path], tmp_path: Path
) -> None:
    with run_agent() as agent:
        agent.settle()
        document = yaml.safe_load(DOCUMENT.read_text())
        schemas = document["components"]["schemas"]
        schemas["TaskId"]["anyOf"][0]["enum"] = agent.tasks
        schemas["Receiver"]["properties"]["url"]["enum"][0] = agent.hook
        (tmp_path / "openapi.yaml").write_text(yaml.safe_dump(document))
        command = [
            *(python_environment("schemathesis") / "schemathesis", "run", tmp_path / "openapi.yaml"),
            *("--url", f"{agent.http.base_url}/a2a", "--header", "A2A-Version: 1.0"),
            *("--header", "Authorization: Bearer token-of-default", "--exclude-checks", LEFT_OUT),
            *("--max-time", str(SECONDS), "--request-timeout", f"{ceiling():.0f}", "--max-failures", "5", "--no-color"),
        ]
        ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=ceiling())
        assert ended.returncode == 0, ended.stdout[-8000:] + ended.stderr[-2000:]
        agent.check()
