"""An unknown value for every enumeration of every CRD, in an object that is otherwise valid."""

from collections.abc import Iterator, Mapping

import pytest
from e2e.walk.bases import schema_of
from e2e.walk.edits import ITEM, Edit, Path
from e2e.walk.schema import Schema, properties, values
from tests.support.bad_input.whole import AGENT, SERVER, SKILL

UNHEARD = "Unheard"
_MODEL = {"name": "m", "baseURL": "http://192.0.2.1/v1", "price": {"inputPerMillion": "1", "outputPerMillion": "2"}}
_STARTS = (
    (AGENT, {"instructions": "Help.", "model": _MODEL}),
    (SKILL, SKILL["spec"]),
    (SERVER, SERVER["spec"]),
    (SERVER, {"workload": {"image": "docker.io/example/tools:1"}}),
)


def _unknown_words() -> Iterator[object]:
    for body, start in _STARTS:
        known = dict(properties(schema_of(body["kind"])))
        for path, schema in known.items():
            words = schema.get("enum", schema.get("items", {}).get("enum"))
            if words is None or (body is SERVER and path[0] not in start):
                continue
            value = UNHEARD if "enum" in schema else [words[0], UNHEARD]
            spec = Edit(path, value, tuple(_surroundings(path, known))).applied(start)
            name = f"a word that nobody knows in {body['kind']}.{'.'.join(path)}"
            yield pytest.param(body, "spec", spec, "upported value", id=name)


def _surroundings(path: Path, known: Mapping[Path, Schema]) -> Iterator[Edit]:
    """Yield the edits that create the objects and lists around the property."""
    for length in range(1, len(path)):
        outer = path[:length]
        if outer[-1] != ITEM:
            edits = (Edit(outer, value) for value in values(known[outer], outer))
            yield next(edit for edit in edits if edit.opens)


UNKNOWN_WORDS = list(_unknown_words())
