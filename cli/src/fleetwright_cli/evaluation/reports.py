"""The results of an evaluation, as a table, as JSON and as JUnit XML. Pure."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final
from xml.etree import ElementTree as ET

from fleetwright_cli.cluster.tables import render, visible

_SEVERAL: Final = 2
_HEAD: Final = ("CASE", "RESULT", "RUNS", "SECONDS", "COST", "PROBLEM")


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseResult:
    """The runs of one case. It has passed if most of its runs have passed."""

    name: str
    runs: Sequence[Sequence[str]]
    """For each run, what was not as expected."""
    seconds: float
    cost: Decimal | None = None
    model: str = ""
    """The model that the evaluation asked for; empty for the agent's own."""

    @property
    def passes(self) -> int:
        return sum(not problems for problems in self.runs)

    @property
    def passed(self) -> bool:
        return self.passes * 2 > len(self.runs)

    @property
    def problems(self) -> Sequence[str]:
        """The problems of the first run that has failed."""
        return next((problems for problems in self.runs if problems), ())


def table(results: Sequence[CaseResult]) -> str:
    """Return a row for each case. With several models, each model has a column."""
    models = _models(results)
    rows = _rows(results) if len(models) < _SEVERAL else _comparison(results, models)
    passed = sum(each.passed for each in results)
    return f"{render(rows)}\n\n{passed} passed, {len(results) - passed} failed"


def _rows(results: Sequence[CaseResult]) -> list[tuple[str, ...]]:
    rows = [
        (
            visible(each.name),
            "passed" if each.passed else "failed",
            f"{each.passes} of {len(each.runs)}",
            f"{each.seconds:.1f}",
            _dollars(each.cost),
            visible("; ".join(each.problems)) or "-",
        )
        for each in results
    ]
    return [_HEAD, *rows]


def _comparison(results: Sequence[CaseResult], models: Sequence[str]) -> list[tuple[str, ...]]:
    """Return a row for each case and a column for each model, with the sums at the end."""
    found = {(each.name, each.model): each for each in results}
    cases = list(dict.fromkeys(each.name for each in results))
    rows = [("CASE", *map(visible, models))]
    for name in cases:
        each_model = [found[name, model] for model in models]
        verdicts = [f"{'passed' if each.passed else 'failed'} {each.passes}/{len(each.runs)}" for each in each_model]
        rows.append((visible(name), *verdicts))
    of_model = [[each for each in results if each.model == model] for model in models]
    rows.append(("passed", *(f"{sum(each.passed for each in group)} of {len(group)}" for group in of_model)))
    rows.append(("seconds", *(f"{sum(each.seconds for each in group):.1f}" for group in of_model)))
    costs = ([each.cost for each in group if each.cost is not None] for group in of_model)
    rows.append(("cost", *(_dollars(sum(known, Decimal(0)) if known else None) for known in costs)))
    return rows


def _models(results: Sequence[CaseResult]) -> list[str]:
    return list(dict.fromkeys(each.model for each in results))


def _dollars(cost: Decimal | None) -> str:
    return "-" if cost is None else f"{cost:f} USD"


def json_report(results: Sequence[CaseResult]) -> str:
    return json.dumps([_document(each) for each in results], indent=2)


def junit(results: Sequence[CaseResult]) -> str:
    """Return JUnit XML, as CI systems read it. With several models, each model has a suite."""
    models = _models(results)
    suites = [_suite(model, [each for each in results if each.model == model]) for model in models]
    if len(suites) < _SEVERAL:
        root = suites[0] if suites else _suite("", [])
    else:
        root = ET.Element("testsuites")
        root.extend(suites)
    ET.indent(root)
    return ET.tostring(root, encoding="unicode", xml_declaration=True)


def _suite(model: str, results: Sequence[CaseResult]) -> ET.Element:
    failed = sum(not each.passed for each in results)
    total = f"{sum(each.seconds for each in results):.3f}"
    name = visible(f"fleetwright eval {model}".rstrip())
    suite = ET.Element("testsuite", name=name, tests=str(len(results)), failures=str(failed), time=total)
    for each in results:
        case = ET.SubElement(suite, "testcase", name=visible(each.name), time=f"{each.seconds:.3f}")
        if not each.passed:
            message = visible("; ".join(each.problems))
            ET.SubElement(case, "failure", message=message).text = message
    return suite


def _document(result: CaseResult) -> dict[str, Any]:
    return {
        "name": result.name,
        **({"model": result.model} if result.model else {}),
        "passed": result.passed,
        "runs": [list(problems) for problems in result.runs],
        "seconds": round(result.seconds, 3),
        "costUSD": None if result.cost is None else float(result.cost),
    }
