"""The samples that people begin with: what one part of a spec promises, another must not take away."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

EXAMPLES = Path(__file__).parents[2] / "examples"
PHOTOGRAPH = 2 * 1024 * 1024
"""Bytes of one from a telephone; a request carries it as base64."""
OFFERED = 1024 * 1024
"""What `limits.maxRequestBytes` is where nothing says otherwise."""


def agents() -> Iterator[Any]:
    for path in sorted(EXAMPLES.rglob("*.yaml")):
        for document in yaml.safe_load_all(path.read_text()):
            if document and document.get("kind") == "Agent":
                name = f"{path.relative_to(EXAMPLES)}: {document['metadata']['name']}"
                yield pytest.param(document["spec"], id=name)


SEEING = [each for each in agents() if each.values[0].get("model", {}).get("vision")]


def test_there_is_a_sample_that_sees() -> None:
    assert SEEING


@pytest.mark.parametrize("spec", SEEING)
def test_an_agent_that_sees_takes_a_photograph(spec: dict[str, Any]) -> None:
    assert spec.get("limits", {}).get("maxRequestBytes", OFFERED) > PHOTOGRAPH * 4 / 3
