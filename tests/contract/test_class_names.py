"""Every public class of the product has a name of its own, so a name in a log or a review means one thing."""

import ast
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES = ("libs/*/src", "operator/src", "agent_image/src", "gateway/src", "cli/src", "workspace/src")


def test_public_class_names_are_unique():
    places: defaultdict[str, list[str]] = defaultdict(list)
    for pattern in SOURCES:
        for path in ROOT.glob(f"{pattern}/**/*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    places[node.name].append(str(path.relative_to(ROOT)))
    assert len(places) > 100
    assert {name: found for name, found in places.items() if len(found) > 1} == {}
