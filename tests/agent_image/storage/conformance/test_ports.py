"""Each method of each storage port is called by a test of this folder, or by a function that the tests share.

A syntax-tree search finds the calls. `storage.skills.erase` is a call of the port of learned skills; a name that was
assigned from `storage.skills` counts as the same port. A port is reached through a field of `Storage` or the task log.
"""

import ast
import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args, get_type_hints

import pytest

from fleetwright_agent import storage
from fleetwright_agent.storage.checkpoints import ConversationSaver
from fleetwright_agent.storage.storage import Storage
from fleetwright_agent.storage.tasks.push_store import PushStore
from fleetwright_agent.storage.tasks.task_log import TaskLog, TaskQueries


def ports() -> list[type]:
    """Return the protocols and abstract classes that the modules of the storage package define."""
    found: list[type] = []
    for each in pkgutil.iter_modules(storage.__path__, f"{storage.__name__}."):
        if not each.ispkg:
            classes = [value for value in vars(importlib.import_module(each.name)).values() if inspect.isclass(value)]
            found += [value for value in classes if value.__module__ == each.name and is_port(value)]
    return found


def is_port(value: type) -> bool:
    return inspect.isabstract(value) or bool(getattr(value, "_is_protocol", False))


def methods(port: type) -> list[str]:
    return [name for name in vars(port) if not name.startswith("_")]


def receivers() -> dict[str, type]:
    """Return the names under which a test reaches a port, each with the class of that port."""
    hints: dict[str, Any] = get_type_hints(Storage, localns={"ConversationSaver": ConversationSaver})
    # A field that builds its port is a callable without arguments.
    fields = {name: get_args(hint)[-1] if get_args(hint) else hint for name, hint in hints.items()}
    return {**fields, "log": TaskLog, "pushes": PushStore}


def receiver(node: ast.expr, aliases: dict[str, str]) -> str:
    """Return the last name of an expression, such as `views` of `storage.views()`."""
    match node:
        case ast.Call():
            return receiver(node.func, aliases)
        case ast.Attribute():
            return node.attr
        case ast.Name():
            return aliases.get(node.id, node.id)
    return ""


def calls(source: str) -> Iterator[tuple[str, str]]:
    """Yield the receiver and the name of each attribute that a test or fixture uses."""
    for function in ast.parse(source).body:
        aliases: dict[str, str] = {}
        for node in ast.walk(function):
            match node:
                case ast.Assign(targets=[ast.Name(id=name)], value=value):
                    aliases[name] = receiver(value, aliases)
        for node in ast.walk(function):
            if isinstance(node, ast.Attribute):
                yield receiver(node.value, aliases), node.attr


def uncalled(port: type, sources: list[str]) -> list[str]:
    # A protocol that has properties refuses `issubclass`.
    names = {name for name, reached in receivers().items() if port in reached.__mro__}
    called = {method for source in sources for name, method in calls(source) if name in names}
    return [method for method in methods(port) if method not in called]


@pytest.mark.parametrize("port", [pytest.param(each, id=each.__name__) for each in ports()])
def test_port_methods_are_called_by_a_test(port: type) -> None:
    this = Path(__file__)
    tests = [path for path in this.parent.glob("test_*.py") if path != this]
    files = [*tests, this.with_name("conftest.py"), *this.parent.parent.glob("*_values.py")]
    assert uncalled(port, [path.read_text() for path in files]) == []


class Unreachable:
    """Stands for a port that no field of the storage holds."""

    def read(self) -> None: ...


@pytest.mark.parametrize(
    ("port", "method", "body", "called"),
    [
        pytest.param(PushStore, "due", "log.pushes.due()", True, id="a direct call"),
        pytest.param(PushStore, "due", "found = log.pushes; found.due()", True, id="a call by another name"),
        pytest.param(PushStore, "due", "storage.skills.due()", False, id="the method of another port"),
        pytest.param(PushStore, "due", "log.pushes.remove()", False, id="another method"),
        pytest.param(ConversationSaver, "holds", "storage.checkpoints().holds()", True, id="a port that is built"),
        pytest.param(TaskQueries, "page", "log.page()", True, id="a part of the task log"),
        pytest.param(Unreachable, "read", "storage.file.read()", False, id="a port out of reach"),
    ],
)
def test_uncalled_finds_methods_without_a_call(port: type, method: str, body: str, called: bool) -> None:
    assert (method not in uncalled(port, [f"def test(log, storage): {body}"])) is called
