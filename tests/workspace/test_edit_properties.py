"""Properties of edits on random files: an edit touches one place, and everything else keeps its bytes."""

import random

import pytest

from fleetwright_workspace.text.document import decode, encode
from fleetwright_workspace.text.edit_matching import EXACT, EditError, plan_edit

INDENTS = ["", "  ", "\t", "    "]
CONTENTS = ["a", "b", "a b", "a  b", "x()", "}", "", "é"]
NEW = ["z", "z\nq", "", "  z\n    q\n", "a\n"]


def _file(generator: random.Random) -> tuple[list[str], bytes]:
    lines = [generator.choice(INDENTS) + generator.choice(CONTENTS) for _ in range(generator.randrange(1, 8))]
    endings = [generator.choice(["\n", "\r\n"]) for _ in lines]
    if generator.random() < 0.5:
        endings = endings[:1] * len(lines)
    text = "".join(line + ending for line, ending in zip(lines, endings, strict=True))
    if generator.random() < 0.3:
        text = text.rstrip("\r\n")
    return lines, encode(text, bom=generator.random() < 0.2)


def _old(generator: random.Random, lines: list[str]) -> str:
    first = generator.randrange(len(lines))
    chosen = lines[first : first + generator.randrange(1, 4)]
    changed = [line if generator.random() < 0.7 else generator.choice(["", "  "]) + line.strip() for line in chosen]
    return "\n".join(changed) + generator.choice(["", "\n"])


def _words(text: str) -> list[str]:
    return [" ".join(line.split()) for line in text.split("\n") if line.strip()]


@pytest.mark.parametrize("seed", range(5))
def test_edit_touches_one_place_only(seed: int) -> None:
    generator = random.Random(seed)
    strategies: set[str] = set()
    shown: list[tuple[str, str]] = []
    for _ in range(1000):
        lines, data = _file(generator)
        old, new = _old(generator, lines), generator.choice(NEW)
        document = decode(data)
        assert document is not None
        if not old or old == new:
            continue
        try:
            plan = plan_edit(document.text, old, new, 1)
        except EditError as refused:
            shown += [(document.text.split("\n")[found.differs_at - 1], found.text) for found in refused.candidates]
            continue
        strategies.add(plan.strategy)
        (place,) = plan.replacements
        result = document.apply(plan.replacements)
        crlf_before = sum(offset < place.start for offset in document.crlf)
        crlf_after = sum(offset >= place.end for offset in document.crlf)
        before = document.original[: place.start + crlf_before].encode()
        after = document.original[len(document.original) - (len(document.text) - place.end + crlf_after) :].encode()
        body = result[3:] if document.bom else result
        assert result.startswith(data[:3]) or not document.bom
        assert body.startswith(before), (data, old, new)
        assert body.endswith(after), (data, old, new)
        found = document.text[place.start : place.end]
        if plan.strategy == EXACT:
            assert (found, document.text.count(old)) == (old, 1)
        else:
            assert _words(found) == _words(old)
            assert old not in document.text
    assert len(strategies) >= 3
    assert all(line == text for line, text in shown)
