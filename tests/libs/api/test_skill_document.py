"""The rules of the Agent Skills format, one test for each."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetwright_api.skill_document import InvalidSkill, key_to_path, path_to_key, read_skill

GOOD = "---\nname: haiku\ndescription: Writes haiku.\n---\nBody."


def test_read_skill_returns_name_description_and_digest():
    content = read_skill("haiku", {"SKILL.md": GOOD, "scripts/count.py": "print(1)"})
    assert (content.name, content.description) == ("haiku", "Writes haiku.")
    assert content.digest.startswith("sha256:")
    assert content.digest != read_skill("haiku", {"SKILL.md": GOOD, "scripts/count.py": "print(2)"}).digest


def with_field(text: str) -> dict[str, str]:
    return {"SKILL.md": GOOD.replace("\n---\nBody", f"\n{text}\n---\nBody")}


BAD = [
    pytest.param({"README.md": GOOD}, "SKILL.md is missing", id="the document is there"),
    pytest.param({"SKILL.md": "name: haiku"}, "must start with a line '---'", id="the fields are fenced"),
    pytest.param({"SKILL.md": "---\nname: [\n---\n"}, "not valid YAML", id="the fields are YAML"),
    pytest.param({"SKILL.md": "---\n- a\n---\n"}, "must be YAML fields", id="the fields are a mapping"),
    pytest.param({"SKILL.md": GOOD.replace("haiku\n", "Haiku\n")}, "lower-case", id="the name is lower-case"),
    pytest.param({"SKILL.md": GOOD.replace("haiku\n", "hai--ku\n")}, "single hyphens", id="hyphens are single"),
    pytest.param({"SKILL.md": GOOD.replace("haiku\n", "tanka\n")}, "must equal", id="the name is the object's"),
    pytest.param({"SKILL.md": "---\nname: haiku\n---\n"}, "description must be a string", id="it is described"),
    pytest.param(
        {"SKILL.md": f"---\nname: haiku\ndescription: {'x' * 1025}\n---\n"}, "at most 1024", id="briefly described"
    ),
    pytest.param(
        {"SKILL.md": GOOD.replace("\n---\nBody", f"\ncompatibility: {'x' * 501}\n---\nBody")},
        "compatibility has 501",
        id="compatibility is brief",
    ),
    pytest.param(
        {"SKILL.md": GOOD.replace("\n---\nBody", "\nmetadata: {a: 1}\n---\nBody")},
        "quote numbers",
        id="metadata is text",
    ),
    pytest.param(
        {"SKILL.md": GOOD.replace("\n---\nBody", "\nallowed-tools: [a]\n---\nBody")},
        "allowed-tools must be a string",
        id="allowed tools are one text",
    ),
    pytest.param(with_field("metadata:\n  reviewed: 2024-02-30"), "metadata has a value", id="no date is made up"),
    pytest.param(with_field("license: !!bool x"), "license has a value", id="a type is what it says"),
    pytest.param(with_field("license: !!timestamp x"), "license has a value", id="a time is one"),
    pytest.param(with_field("license: !!float x"), "license has a value", id="a number is one"),
    pytest.param(with_field(f"license: {'9' * 5000}"), "license has a value", id="a number has an end"),
    pytest.param(with_field("extra:\n  ? {a: b}\n  : c"), "extra has a value", id="a field is called by a text"),
    pytest.param(with_field(f"metadata: {'[' * 1500}{']' * 1500}"), "16 deep", id="brackets are few"),
    pytest.param(with_field(f"metadata: {'{' * 1500}"), "16 deep", id="braces are few"),
    pytest.param(with_field(f"metadata: {'[' * 20}{']' * 20}"), "16 deep", id="no part lies very deep"),
    pytest.param(with_field(f"metadata:\n  {'- ' * 3000}"), "16 deep", id="no list lies very deep"),
    pytest.param(with_field("a: &a {b: c}\nmetadata: {<<: *a}"), "is a YAML alias", id="no part is used twice"),
    pytest.param(
        with_field("\n".join(f"f{n}: v" for n in range(6000))), "exceed 8192 characters", id="the fields have an end"
    ),
    pytest.param(
        with_field('note: "a \\ud800 b"'),
        r"\\ud800 between the '---' lines is half of a surrogate",
        id="letters are whole",
    ),
    pytest.param(with_field('"\\udfff": !!bool x'), r"\\udfff between", id="those of a field's name too"),
    pytest.param({"SKILL.md": GOOD, "../x": ""}, "not a valid path", id="no path climbs"),
    pytest.param({"SKILL.md": GOOD, "/etc/x": ""}, "not a valid path", id="no path is absolute"),
    pytest.param({"SKILL.md": GOOD, "a b": ""}, "not a valid path", id="no path has spaces"),
    pytest.param({"SKILL.md": GOOD, "a./b": ""}, "not a valid path", id="no folder ends with a dot"),
    pytest.param({"SKILL.md": GOOD, **{f"f{n}": "" for n in range(200)}}, "at most 200 files", id="files are counted"),
]


@pytest.mark.parametrize(("files", "says"), BAD)
def test_read_skill_names_the_violated_rule(files, says):
    with pytest.raises(InvalidSkill, match=says):
        read_skill("haiku", files)


GOOD_FIELDS = [
    pytest.param("license: '[MIT](https://example.com/{a}[0])'", id="brackets in a text"),
    pytest.param("metadata:\n  reviewed: '2024-02-30'\n  version: \"1.0\"", id="dates and numbers in quotes"),
    pytest.param("hooks:\n  before:\n  - {run: [a, {b: c}], when: 2024-02-28}", id="fields of somebody else"),
    pytest.param("note: 🦊", id="letters beyond the first 65,536"),
    pytest.param('note: "\\U0001F98A"', id="an escape of such a letter"),
    pytest.param("1: one\nyes: two", id="fields that are called by a number"),
    pytest.param(f"note: {'x' * 8000}", id="long fields"),
]


@pytest.mark.parametrize("field", GOOD_FIELDS)
def test_read_skill_accepts_optional_fields(field):
    assert read_skill("haiku", with_field(field)).description == "Writes haiku."


SEGMENT = st.from_regex(r"\A[A-Za-z0-9._-]{0,8}[A-Za-z0-9_-]\Z").filter(lambda text: ".." not in text)


@given(st.lists(SEGMENT, min_size=1, max_size=4).map("/".join))
def test_path_to_key_round_trips_every_valid_path(path):
    read_skill("haiku", {"SKILL.md": GOOD, path: GOOD if path == "SKILL.md" else "x"})
    key = path_to_key(path)
    assert "/" not in key
    assert key_to_path(key) == path
