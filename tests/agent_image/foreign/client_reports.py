"""Runs a third-party client, and holds the report that each client prints."""

import json
import re
import subprocess
from pathlib import Path

from tests.support.machine import ceiling

CLIENTS = Path(__file__).with_name("clients")
ROOT = Path(__file__).parents[3]
SEEN = {
    "card": "echo",
    "sent": ["completed", "Done with hello."],
    "streamed": ["working", "completed", "Done with hello again."],
    "got": ["completed", "Done with hello."],
    "cancelled": "canceled",
    "asked": ["input-required", "Sure?", "completed", "Done with yes."],
    "registered": True,
}
SINCE_1_0 = SEEN | {"verified": True, "listed": [True], "asked": ["input_required", *SEEN["asked"][1:]]}
BEFORE_1_0 = SEEN | {"finals": 1}
BY_ADK = {
    "sent": ["Done with hello."],
    "streamed": [[True, "Working on it. "], [False, "Done with hello."]],
    "continued": [["Done with hello again."], True],
    "asked": [{"input_required": "Sure?"}, ["Done with yes."], True],
    "decided": [["Working on it. ", "Done with yes."], 0],
    "failed": ["It failed as it was told to."],
    "unknown": ["A2A request failed: HTTP Error 401: Client error '401 Unauthorized'"],
}
BY_STRANDS = {
    "card": ["echo", "echo"],
    "sent": ["end_turn", "Done with hello."],
    "streamed": ["working", "completed", "end_turn", "Done with hello again."],
    "question": ["interrupt", "Sure?"],
    "failed": ["end_turn", "It failed as it was told to."],
    "unknown": 401,
}
BY_AGENT_FRAMEWORK = {
    "card": "echo",
    "sent": "Done with hello.",
    "continued": ["Done with hello again.", True],
    "streamed": ["Working on it. ", "Done with hello again.", "Done with hello again."],
    "asked": ['Sure?\n{\n  "question": "Sure?"\n}', "Done with yes.", True],
    "got": True,
    "resumed": "Done with wait 3.",
    "failed": "It failed as it was told to.",
    "unknown": "HTTP Error 401",
}
SINCE_1_0_UNVERIFIED = {key: value for key, value in SINCE_1_0.items() if key != "verified"}
BY_HANDLER = SINCE_1_0_UNVERIFIED | {"valid": True, "unknown": "TaskNotFoundError", "ended": "TaskNotCancelableError"}
BY_GO = SINCE_1_0_UNVERIFIED | {
    "followed": "canceled",
    "unknown": "TASK_NOT_FOUND",
    "ended": "TASK_NOT_CANCELABLE",
}
BY_JAVA = {
    "JSONRPC": BEFORE_1_0 | {"unknown": "TaskNotFoundError", "ended": "TaskNotCancelableError"},
    "HTTP+JSON": {key: value for key, value in BEFORE_1_0.items() if key != "asked"}
    | {"unknown": "A2AClientException", "ended": "A2AClientException"},
}


def read_locked_version(name, package):
    return re.search(rf"^{package}==(\S+)", (ROOT / f"locks/{name}.txt").read_text(), re.MULTILINE)[1]


def read_npm_version(package):
    lock = json.loads(Path(__file__).with_name("npm-a2a").joinpath("package-lock.json").read_text())
    return lock["packages"][f"node_modules/{package}"]["version"]


def read_maven_version(package):
    sums = Path(__file__).with_name("maven-a2a").joinpath("SHA256SUMS").read_text()
    return re.search(rf"  {package}-([\d.]+)\.Final\.jar$", sums, re.MULTILINE)[1]


def read_go_version(module):
    text = Path(__file__).with_name("go-a2a").joinpath("go.mod").read_text()
    return re.search(rf"^require {module} v(\S+)$", text, re.MULTILINE)[1]


def run_client(*command):
    """Return the report that a client prints in its last line."""
    ended = subprocess.run(command, capture_output=True, text=True, timeout=ceiling(), check=False)
    assert ended.returncode == 0, ended.stderr[-3000:]
    return json.loads(ended.stdout.splitlines()[-1])
