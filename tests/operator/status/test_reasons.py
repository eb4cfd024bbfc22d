"""The documentation explains every reason of a failed condition, and no other reason."""

import re
from pathlib import Path

from tests.support.operator.reasons import find_reasons

ROOT = Path(__file__).parents[3]
GUIDE = ROOT / "docs/guides/watching-it.md"
REFERENCE = "".join(path.read_text() for path in (ROOT / "docs/reference").glob("*.md"))


def explained() -> set[str]:
    table = GUIDE.read_text().partition("| reason | what it means |")[2].partition("\n\n")[0]
    firsts = [row.split("|")[1] for row in table.splitlines() if row.count("|") >= 3]
    return {reason for first in firsts for reason in re.findall(r"`(\w+)`", first)}


def test_reasons_are_all_explained_with_a_remedy():
    # `Blocked` has no row, because it refers to the row of another reason.
    assert explained() == find_reasons() - {"Blocked"}


def test_reasons_are_all_listed_in_the_reference():
    assert {reason for reason in find_reasons() if f"`{reason}`" not in REFERENCE} == set()


def test_reasons_finds_the_reasons_of_the_source():
    assert {
        "ImagePull",
        "Quota",
        "SkillPending",
        "SourceUnusable",
        "Preflight",
        "NotOwned",
        "SecretNotFound",
    } <= find_reasons()
    assert not {"Ready", "RolledOut", "Valid"} & find_reasons()
