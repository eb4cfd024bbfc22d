"""The Agent Skills rules, one by one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetwright_operator.skill_document import InvalidSkill, key_to_path, path_to_key, read_skill

GOOD = "---\nname: haiku\ndescription: Writes haiku.\n---\nBody."


def test_a_skill_is_read_with_its_digest():
    content = read_skill("haiku", {"SKILL.md": GOOD, "scripts/count.py": "print(1)"})
    assert (content.name, content.description) == ("haiku", "Writes haiku.")
    assert content.digest.startswith("sha256:")
    assert content.digest != read_skill("haiku", {"SKILL.md": GOOD, "scripts/count.py": "print(2)"}).digest


BAD = [
    pytest.param({"README.md": GOOD}, "SKILL.md is missing", id="the document is there"),
    pytest.param({"SKILL.md": "name: haiku"}, "must start with a line '---'", id="the fields are fenced"),
    pytest.param({"SKILL.md": "---\nname: [\n---\n"}, "not valid YAML", id="the fields are YAML"),
    pytest.param({"SKILL.md": "---\n- a\n---\n"}, "stand fields", id="the fields are a mapping"),
    pytest.param({"SKILL.md": GOOD.replace("haiku\n", "Haiku\n")}, "lower-case", id="the name is lower-case"),
    pytest.param({"SKILL.md": GOOD.replace("haiku\n", "hai--ku\n")}, "single hyphens", id="hyphens are single"),
    pytest.param({"SKILL.md": GOOD.replace("haiku\n", "tanka\n")}, "must equal", id="the name is the object's"),
    pytest.param({"SKILL.md": "---\nname: haiku\n---\n"}, "description must be a text", id="it is described"),
    pytest.param(
        {"SKILL.md": f"---\nname: haiku\ndescription: {'x' * 1025}\n---\n"}, "at most 1024", id="briefly described"
    ),
    pytest.param(
        {"SKILL.md": GOOD.replace("\n---\nBody", f"\ncompatibility: {'x' * 501}\n---\nBody")},
        "compatibility has 501",
        id="compatibility is brief",
    ),
    pytest.param(
        {"SKILL.md": GOOD.replace("\n---\nBody", "\nmetadata: {a: 1}\n---\nBody")}, "in quotes", id="metadata is text"
    ),
    pytest.param(
        {"SKILL.md": GOOD.replace("\n---\nBody", "\nallowed-tools: [a]\n---\nBody")},
        "allowed-tools must be a text",
        id="allowed tools are one text",
    ),
    pytest.param({"SKILL.md": GOOD, "../x": ""}, "no usable path", id="no path climbs"),
    pytest.param({"SKILL.md": GOOD, "/etc/x": ""}, "no usable path", id="no path is absolute"),
    pytest.param({"SKILL.md": GOOD, "a b": ""}, "no usable path", id="no path has spaces"),
    pytest.param({"SKILL.md": GOOD, "a./b": ""}, "no usable path", id="no folder ends with a dot"),
    pytest.param({"SKILL.md": GOOD, **{f"f{n}": "" for n in range(200)}}, "at most 200 files", id="files are counted"),
]


@pytest.mark.parametrize(("files", "says"), BAD)
def test_a_broken_rule_is_named(files, says):
    with pytest.raises(InvalidSkill, match=says):
        read_skill("haiku", files)


SEGMENT = st.from_regex(r"\A[A-Za-z0-9._-]{0,8}[A-Za-z0-9_-]\Z").filter(lambda text: ".." not in text)


@given(st.lists(SEGMENT, min_size=1, max_size=4).map("/".join))
def test_every_valid_path_has_a_key_of_its_own(path):
    read_skill("haiku", {"SKILL.md": GOOD, path: GOOD if path == "SKILL.md" else "x"})
    key = path_to_key(path)
    assert "/" not in key
    assert key_to_path(key) == path
