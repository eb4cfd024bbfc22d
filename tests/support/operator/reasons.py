"""The reasons of conditions that the operator's source can write."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SOURCES = (ROOT / "operator/src", ROOT / "libs/api/src", ROOT / "libs/kube/src")
ABNORMAL = {"CONFLICT", "DEGRADED", "CARD_DRIFT", "ESCALATED"}
REFERRED = ("Secret", "ConfigMap")
"""The kinds from which reasons are derived."""


@cache
def _modules() -> dict[str, list[ast.AST]]:
    """Return the nodes of each module."""
    paths = ((path, path.relative_to(source)) for source in SOURCES for path in source.rglob("*.py"))
    return {str(name): list(ast.walk(ast.parse(path.read_text()))) for path, name in paths}


@cache
def _assignments(module: str) -> dict[str, list[ast.expr]]:
    """Return the values that a module assigns to each name."""
    found: dict[str, list[ast.expr]] = defaultdict(list)
    for node in _modules()[module]:
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if len(targets) == 1:
                found[ast.unparse(targets[0])].append(node.value)
    return found


@cache
def find_reasons() -> set[str]:
    """Return the reasons in calls: Violation(reason, …), WorkloadHealth(status, reason, …), Condition(…)."""
    found = set()
    for name, nodes in _modules().items():
        for call in (node for node in nodes if isinstance(node, ast.Call)):
            kind = call.func.id if isinstance(call.func, ast.Name) else ""
            if kind == "Violation":
                found |= set(_texts(call.args[0], name))
            elif kind == "WorkloadHealth" and not _is_true(call.args[0]):
                found |= set(_texts(call.args[1], name))
            elif kind == "Condition" and (not _is_true(call.args[1]) or ast.unparse(call.args[0]) in ABNORMAL):
                found |= set(_texts(call.args[2], name))
    # Exceptions carry these.
    return {*found, "Conflict", "Terminating"}


def _is_true(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and value.value is True


def _texts(value: ast.expr, module: str) -> Iterator[str]:
    """Yield the possible values of an expression. An expression that passes on a reason yields nothing."""
    match value:
        case ast.Constant(value=str(text)):
            yield text
        case ast.IfExp(body=one, orelse=other):
            yield from _texts(one, module)
            yield from _texts(other, module)
        case ast.JoinedStr(values=[ast.FormattedValue(), ast.Constant(value=str(rest))]):
            yield from (f"{kind}{rest}" for kind in REFERRED)
        case ast.Name(id=name):
            own = list(_assigned_texts(name, module))
            for text in own or [text for other in _modules() for text in _assigned_texts(name, other)]:
                yield text
        case ast.Attribute(attr="reason") | ast.Subscript(slice=ast.Constant(value="reason")):
            return
        case ast.Attribute(value=ast.Name(id=other), attr=name):
            for path in (path for path in _modules() if path.endswith(f"/{other}.py")):
                yield from _assigned_texts(name, path)
        case _:
            pytest.fail(f"{module}: {ast.unparse(value)} may be a reason, and this test does not see which")


def _assigned_texts(name: str, module: str) -> Iterator[str]:
    for value in _assignments(module).get(name, ()):
        yield from _texts(value, module)
