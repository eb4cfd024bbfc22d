"""The list of core scenarios names existing scenarios, and quotes the documents."""

import ast
import re

import pytest
from e2e.cluster.paths import CHECKOUT
from e2e.scenarios.core import CORE


def plain(text):
    """Return a text as one line, because a sentence may continue on the next one."""
    return re.sub(r"\s+", " ", text)


PROMISES = plain((CHECKOUT / "README.md").read_text() + (CHECKOUT / "SECURITY.md").read_text())


@pytest.mark.parametrize("name", CORE)
def test_core_scenario_exists(name):
    file, function = name.split("::")
    tree = ast.parse((CHECKOUT / "e2e" / "scenarios" / file).read_text())
    assert function in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("name", CORE)
def test_promise_of_a_core_scenario_is_in_the_documents(name):
    assert CORE[name] in PROMISES
