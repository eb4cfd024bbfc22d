"""The documentation explains every reason of a condition that is not as it should be, and no other reason."""

import re
from pathlib import Path
from typing import get_args

from fleetwright_api.condition_reasons import ProblemReason

ROOT = Path(__file__).parents[3]
GUIDE = ROOT / "docs/guides/watching-it.md"
REFERENCE = "".join(path.read_text() for path in (ROOT / "docs/reference").glob("*.md"))
DECLARED = set(get_args(ProblemReason))


def explained() -> set[str]:
    table = GUIDE.read_text().partition("| reason | what it means |")[2].partition("\n\n")[0]
    firsts = [row.split("|")[1] for row in table.splitlines() if row.count("|") >= 3]
    return {reason for first in firsts for reason in re.findall(r"`(\w+)`", first)}


def test_reasons_are_all_explained_with_a_remedy():
    # `Blocked` has no row, because it refers to the row of another reason.
    assert explained() == DECLARED - {"Blocked"}


def test_reasons_are_all_listed_in_the_reference():
    assert {reason for reason in DECLARED if f"`{reason}`" not in REFERENCE} == set()
