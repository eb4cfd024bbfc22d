"""The cases of `fleetwright eval`: how a file is read, and which observations pass."""

import json
from decimal import Decimal
from xml.etree import ElementTree as ET

import pytest

from fleetwright_cli.evaluation.cases import Expectation, InvalidEvaluation, Observation, problems, read_cases
from fleetwright_cli.evaluation.reports import CaseResult, json_report, junit, table

CALLED = (("read_file", True), ("edit_file", False), ("edit_file", True), ("bash", True))


def test_cases_are_read_with_one_message_or_several():
    text = """
cases:
  - {name: one, say: Hello}
  - name: two
    say: [First, Second]
    expect: {contains: [x], maxCostUSD: "0.5", tools: [bash], files: {a/b.py: [y]}}
"""
    one, two = read_cases(text)
    assert (one.say, one.expect) == (("Hello",), Expectation())
    assert two.say == ("First", "Second")
    assert two.expect == Expectation(
        contains=("x",), max_cost=Decimal("0.5"), tools=("bash",), files={"a/b.py": ("y",)}
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[", "not YAML"),
        ("cases: []", "cases: needs a list with at least one case"),
        ("cases: [{say: x}]", r"cases\[0\].name: needs a text"),
        ("cases: [{name: a}]", r"cases\[0\].say: needs a list of texts"),
        ("cases: [{name: a, say: []}]", r"cases\[0\].say: needs at least one message"),
        ("cases: [{name: a, say: x, wants: 1}]", r"cases\[0\].wants: unknown field"),
        ("cases: [{name: a, say: x, expect: {tool: [b]}}]", r"cases\[0\].expect.tool: unknown field"),
        ("cases: [{name: a, say: x, expect: {matches: ['(']}}]", r"expect.matches: '\(' is not a regular expression"),
        ("cases: [{name: a, say: x, expect: {files: {../b: [c]}}}]", "must be a path below the workspace"),
        ("cases: [{name: a, say: x, expect: {maxCostUSD: much}}]", "'much' is not a number of dollars"),
        ("cases: [{name: a, say: x}, {name: a, say: y}]", "two cases have the name 'a'"),
    ],
)
def test_invalid_file_names_the_field(text, message):
    with pytest.raises(InvalidEvaluation, match=message):
        read_cases(text)


@pytest.mark.parametrize(
    ("expect", "wanted"),
    [
        (Expectation(), []),
        (Expectation(state="failed"), ["state is completed, expected failed"]),
        (Expectation(contains=("14700",), excludes=("sorry",), matches=(r"\d{5}",)), []),
        (Expectation(contains=("nothing",)), ["the answer does not contain 'nothing'"]),
        (Expectation(excludes=("14700",)), ["the answer contains '14700'"]),
        (Expectation(matches=("^x",)), ["the answer does not match '^x'"]),
        (Expectation(tools=("read_file", "edit_file", "bash")), []),
        (Expectation(tools=("edit_file", "read_file")), ["no successful call of read_file at its place"]),
        (Expectation(tools=("bash", "bash")), ["no successful call of bash at its place"]),
        (Expectation(no_tools=("webfetch",)), []),
        (Expectation(no_tools=("bash",)), ["bash was called"]),
        (Expectation(max_cost=Decimal("0.02")), []),
        (Expectation(max_cost=Decimal("0.001")), ["the cost is 0.01 USD, expected at most 0.001 USD"]),
        (Expectation(files={"a.py": ("one",)}), []),
        (Expectation(files={"a.py": ("two",)}), ["file a.py does not contain 'two'"]),
        (Expectation(files={"b.py": ("one",)}), ["the workspace has no file b.py"]),
    ],
)
def test_observation_is_compared_with_the_expectation(expect, wanted):
    seen = Observation(
        state="completed",
        answer="It is 14700.",
        tools=CALLED,
        cost=Decimal("0.01"),
        files={"a.py": "one", "b.py": None},
    )
    assert problems(expect, seen) == wanted


RESULTS = [
    CaseResult(name="good", runs=[[], [], ["x"]], seconds=1.25, cost=Decimal("0.02")),
    CaseResult(name="bad & worse", runs=[["state is failed"], []], seconds=2),
]


def test_case_passes_if_most_of_its_runs_pass():
    assert [result.passed for result in RESULTS] == [True, False]


def test_reports_say_the_same_as_table_json_and_junit():
    assert table(RESULTS).splitlines()[-1] == "1 passed, 1 failed"
    assert json.loads(json_report(RESULTS))[1] == {
        "name": "bad & worse",
        "passed": False,
        "runs": [["state is failed"], []],
        "seconds": 2,
        "costUSD": None,
    }
    suite = ET.fromstring(junit(RESULTS))
    assert (suite.get("tests"), suite.get("failures")) == ("2", "1")
    assert [case.get("name") for case in suite] == ["good", "bad & worse"]
    failure = suite[1].find("failure")
    assert failure is not None
    assert failure.text == "state is failed"


SWEEP = [
    CaseResult(name="greets", model="small", runs=[[], []], seconds=1, cost=Decimal("0.01")),
    CaseResult(name="counts", model="small", runs=[["wrong"], ["wrong"]], seconds=1, cost=Decimal("0.01")),
    CaseResult(name="greets", model="large", runs=[[], []], seconds=2),
    CaseResult(name="counts", model="large", runs=[[], []], seconds=2),
]


def test_sweep_over_models_has_a_column_for_each_model():
    assert table(SWEEP).splitlines() == [
        "CASE      small        large",
        "greets    passed 2/2   passed 2/2",
        "counts    failed 0/2   passed 2/2",
        "passed    1 of 2       2 of 2",
        "seconds   2.0          4.0",
        "cost      0.02 USD     -",
        "",
        "3 passed, 1 failed",
    ]
    assert [each["model"] for each in json.loads(json_report(SWEEP))] == ["small", "small", "large", "large"]
    suites = ET.fromstring(junit(SWEEP))
    assert [(each.get("name"), each.get("failures")) for each in suites] == [
        ("fleetwright eval small", "1"),
        ("fleetwright eval large", "0"),
    ]


@pytest.mark.parametrize(
    ("models", "wanted"),
    [
        (frozenset({"m", "other"}), []),
        (frozenset({"other"}), ["the agent used other; its a2a.callerChoices must name Model"]),
        (frozenset(), ["the agent used none that it reports; its a2a.callerChoices must name Model"]),
    ],
    ids=["asked for", "another", "not reported"],
)
def test_another_model_than_asked_for_is_a_problem(models, wanted):
    assert problems(Expectation(), Observation(state="completed", answer="", models=models), model="m") == wanted
