"""The policy of a headless run: which calls it approves, and which files are refused."""

import json

import pytest

from fleetwright_cli.terminal.headless.approval_rules import InvalidPolicy, approval_rules, parse_rules
from fleetwright_cli.terminal.model.values import PendingAsk


def ask(tool, reviewed=False, kind="approval", **arguments):
    return PendingAsk(
        task_id="t", identity="1", kind=kind, prompt="", tool=tool, arguments=arguments or None, reviewed=reviewed
    )


def rules(*rules):
    return parse_rules({"version": 1, "rules": list(rules)}, source="policy.yaml")


BASH = {"tool": "bash", "command": "pytest *", "decision": "approve"}
CAT = {"tool": "bash", "command": "cat src/*", "decision": "approve"}
EDIT = {"tool": "edit_file", "path": "src/**", "decision": "approve"}


@pytest.mark.parametrize(
    ("rule", "asked", "wanted"),
    [
        pytest.param(EDIT, ask("edit_file", path="src/a/b.py"), True, id="a file in a folder"),
        pytest.param(EDIT, ask("edit_file", path="./src/b.py"), True, id="a path with a dot"),
        pytest.param(EDIT, ask("edit_file", path="src/../.git/config"), None, id="a path that leaves the folder"),
        pytest.param(EDIT, ask("edit_file", path="../src/b.py"), None, id="a path above"),
        pytest.param(EDIT, ask("edit_file", path="/workspace/src/b.py"), True, id="a path of the workspace"),
        pytest.param(EDIT, ask("edit_file", path="/workspace/src/../../etc/x"), None, id="a path out of it"),
        pytest.param(EDIT, ask("edit_file", path="/src/b.py"), None, id="an absolute path"),
        pytest.param(EDIT, ask("edit_file"), None, id="unknown arguments"),
        pytest.param(EDIT, ask("write_file", path="src/b.py"), None, id="another tool"),
        pytest.param(EDIT, ask("edit_file", path="src/b.py", reviewed=True), None, id="other people decide"),
        pytest.param(EDIT, ask("edit_file", path="src/b.py", kind="question"), None, id="a question"),
        pytest.param({**EDIT, "path": "*.py"}, ask("edit_file", path="a.py"), True, id="a star in one segment"),
        pytest.param({**EDIT, "path": "*.py"}, ask("edit_file", path="a/b.py"), None, id="no star across segments"),
        pytest.param({**EDIT, "path": "**/*.py"}, ask("edit_file", path="b.py"), True, id="two stars match nothing"),
        pytest.param(BASH, ask("bash", command="pytest tests -q"), True, id="a command"),
        pytest.param(BASH, ask("bash", command="pytest"), True, id="a command without words"),
        pytest.param(BASH, ask("bash", command="pytest; rm -rf ."), None, id="two commands"),
        pytest.param(BASH, ask("bash", command="pytest $(rm -rf .)"), None, id="a substitution"),
        pytest.param(BASH, ask("bash", command="pytest > ../x"), None, id="a redirection"),
        pytest.param(BASH, ask("bash", command="pytest\nrm x"), None, id="two lines"),
        pytest.param(BASH, ask("bash", command="pytest 'x"), None, id="an open quotation"),
        pytest.param(BASH, ask("bash", command="pytestx"), None, id="another program"),
        pytest.param(BASH, ask("bash", command="pytest tests/a.py -k 'a*b'"), True, id="a quoted wildcard"),
        pytest.param(BASH, ask("bash", command="pytest tests/*"), None, id="a wildcard of the shell"),
        pytest.param(BASH, ask("bash", command="pytest [a-b]"), None, id="a set of characters"),
        pytest.param(BASH, ask("bash", command="pytest ~/x"), None, id="a home folder"),
        pytest.param(BASH, ask("bash", command="pytest {a,b}"), None, id="an expansion of braces"),
        pytest.param(BASH, ask("bash", command='pytest "$HOME"'), None, id="a variable in double quotes"),
        pytest.param(BASH, ask("bash", command='pytest "`id`"'), None, id="a backquote in double quotes"),
        pytest.param(BASH, ask("bash", command="pytest '$HOME'"), True, id="a dollar sign in single quotes"),
        pytest.param(BASH, ask("bash", command="pytest ../x"), None, id="a further word that leaves the folder"),
        pytest.param(BASH, ask("bash", command="pytest --rootdir=../x"), None, id="an option that leaves the folder"),
        pytest.param(BASH, ask("bash", command="pytest a..b"), True, id="two dots within a name"),
        pytest.param(CAT, ask("bash", command="cat src/a.py"), True, id="a star in a word"),
        pytest.param(CAT, ask("bash", command="cat src/a/b.py"), None, id="no star across the folders of a word"),
        pytest.param(CAT, ask("bash", command="cat src/../../etc/passwd"), None, id="a word that leaves the folder"),
        pytest.param(CAT, ask("bash", command="cat src/.."), None, id="the folder above in a word"),
        pytest.param(CAT, ask("bash", command="cat src/*"), True, id="the words of the rule itself"),
        pytest.param(
            {**BASH, "command": "cat src/**"}, ask("bash", command="cat src/a/b.py"), True, id="two stars in a word"
        ),
        pytest.param(
            {**BASH, "command": "rm tmp/?"}, ask("bash", command="rm tmp/*"), None, id="a mark against a wildcard"
        ),
        pytest.param(
            {**CAT, "decision": "decline"}, ask("bash", command="cat src/a/../b"), False, id="a wide rule that declines"
        ),
        pytest.param(
            {**EDIT, "decision": "decline"}, ask("edit_file", path="x/../src/b.py"), False, id="a declined detour"
        ),
        pytest.param(EDIT, ask("edit_file", path="src/a/../b.py"), None, id="a detour within the folder"),
        pytest.param(
            {"tool": "pay", "arguments": {"to": "a/*"}, "decision": "approve"}, ask("pay", to="a/../b"), None,
            id="an argument that leaves the folder",
        ),
        pytest.param(
            {**BASH, "command": "make test && make lint"}, ask("bash", command="make test && make lint"), True,
            id="an equal command",
        ),
        pytest.param({"tool": "*", "decision": "decline"}, ask("bash"), False, id="a rule that declines all"),
        pytest.param(
            {"tool": "pay", "arguments": {"amount": "5?"}, "decision": "approve"}, ask("pay", amount=55), True,
            id="an argument",
        ),
        pytest.param(
            {"tool": "pay", "arguments": {"to": "x"}, "decision": "approve"}, ask("pay", amount=55), None,
            id="a missing argument",
        ),
    ],
)  # fmt: skip
def test_rule_decides_by_tool_and_arguments(rule, asked, wanted):
    assert rules(rule).decide(asked) is wanted


def test_first_rule_that_fits_decides():
    decline = {**EDIT, "path": "src/secret/**", "decision": "decline"}
    assert rules(decline, EDIT).decide(ask("edit_file", path="src/secret/x")) is False
    assert rules(EDIT, decline).decide(ask("edit_file", path="src/secret/x")) is True


@pytest.mark.parametrize(
    ("value", "asked", "wanted"),
    [
        ("none", ask("edit_file", path="a.py"), None),
        ("edits", ask("edit_file", path="a/b.py"), True),
        ("edits", ask("write_file", path="a.py"), True),
        ("edits", ask("edit_file", path="/workspace/a.py"), True),
        ("edits", ask("edit_file", path="../a.py"), None),
        ("edits", ask("edit_file", path="/etc/passwd"), None),
        ("edits", ask("bash", command="true"), None),
    ],
)
def test_named_policy_decides_by_tool(value, asked, wanted):
    assert approval_rules(value).decide(asked) is wanted


@pytest.mark.parametrize(
    ("rule", "wanted"),
    [
        ({"tool": "*", "decision": "approve"}, r"rules\[0\].tool: a rule that approves names one tool"),
        ({"tool": "bash", "decision": "approve"}, r"rules\[0\].command: a rule that approves commands begins"),
        ({**BASH, "command": "* x"}, r"rules\[0\].command: a rule that approves commands begins"),
        ({**BASH, "command": "?*"}, r"rules\[0\].command: a rule that approves commands begins"),
        ({**BASH, "command": "py* x"}, r"rules\[0\].command: a rule that approves commands begins"),
        ({**BASH, "command": "'*' x"}, r"rules\[0\].command: a rule that approves commands begins"),
        ({**BASH, "command": "A=1 *"}, r"rules\[0\].command: a rule that approves commands begins"),
        ({**BASH, "command": "pytest 'x"}, r"rules\[0\].command: a rule that approves commands begins"),
        ({**BASH, "tool": "shell", "command": "?*"}, r"rules\[0\].command: a rule that approves commands begins"),
        ({"tool": "bash", "decision": "maybe"}, r"rules\[0\].decision: must be approve or decline"),
        ({"decision": "approve"}, r"rules\[0\].tool: is required"),
        ({**EDIT, "paths": "x"}, r"rules\[0\]: unknown field 'paths'"),
        ({**EDIT, "path": 7}, r"rules\[0\].path: must be a text"),
        ({**EDIT, "arguments": {"a": 1}}, r"rules\[0\].arguments: must be an object of texts"),
        ("x", r"rules\[0\]: must be an object"),
    ],
)
def test_invalid_rule_is_refused_with_its_field(rule, wanted):
    with pytest.raises(InvalidPolicy, match=wanted):
        rules(rule)


@pytest.mark.parametrize(
    ("content", "wanted"),
    [
        (None, "neither none, edits nor a file"),
        ("a: [", "not a YAML file"),
        (json.dumps({"rules": []}), "has the fields `version: 1` and `rules`"),
        (json.dumps({"version": 1, "rules": {}}), "rules: must be a list"),
        ("#" * 300_000, "at most 262144 bytes"),
    ],
)
def test_invalid_policy_file_is_refused(tmp_path, content, wanted):
    path = tmp_path / "policy.yaml"
    if content is not None:
        path.write_text(content)
    with pytest.raises(InvalidPolicy, match=wanted):
        approval_rules(str(path))
