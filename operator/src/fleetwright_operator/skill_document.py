"""A Skill's files, read by the Agent Skills rules: SKILL.md with front matter, and beside it what it refers to.

Pure. Refuses what an agent could not load, with the rule that was broken: the operator says so in a condition
and `fleetwright dev` on the terminal.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import yaml

from fleetwright_operator.canonical import digest

DOCUMENT = "SKILL.md"
MAX_FILES = 200
_NAME = re.compile(r"^[a-z0-9]+(-[a-z0-9]+)*$")
_SEGMENT = re.compile(r"^[A-Za-z0-9._-]*[A-Za-z0-9_-]$")
_FRONT_MATTER = re.compile(r"\A---\r?\n(.*?)\r?\n---[ \t]*(\r?\n|\Z)", re.DOTALL)


class InvalidSkill(ValueError):  # noqa: N818 - the condition's reason has this name
    """The files are no skill; the message names the file or field and the rule."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillContent:
    """A valid skill. `files` is empty where only its facts are known, as for a snapshot that is not read back."""

    name: str
    description: str
    digest: str
    files: Mapping[str, str] = field(default_factory=dict)
    permissions: Mapping[str, Any] = field(default_factory=dict)
    """What the Skill says it needs of its agents."""


def read_skill(name: str, files: Mapping[str, str], *, permissions: Mapping[str, Any] | None = None) -> SkillContent:
    """Checks the files of the Skill object `name`.

    Raises:
        InvalidSkill: A rule is broken.
    """
    return SkillContent(
        name=name,
        description=_check(files, name),
        digest=digest(dict(files)),
        files=dict(files),
        permissions=permissions or {},
    )


def _check(files: Mapping[str, str], name: str) -> str:
    if DOCUMENT not in files:
        raise InvalidSkill(f"{DOCUMENT} is missing: a skill needs one at its top")
    if len(files) > MAX_FILES:
        raise InvalidSkill(f"a skill has at most {MAX_FILES} files, this one has {len(files)}")
    for path in files:
        _check_path(path)
    front = _front_matter(files[DOCUMENT])
    _check_name(front, expected=name)
    description = _text(front, "description", limit=1024, required=True)
    _text(front, "compatibility", limit=500, required=False)
    _text(front, "license", limit=500, required=False)
    _text(front, "allowed-tools", limit=4096, required=False)
    _check_metadata(front.get("metadata"))
    return description


def read_head(name: str, head: str, paths: Sequence[str]) -> str:
    """Checks what is known of files that lie elsewhere, `head` being SKILL.md up to the end of its fields.

    Returns: the description.

    Raises:
        InvalidSkill: A rule is broken.
    """
    return _check({path: head if path == DOCUMENT else "" for path in paths}, name)


def path_to_key(path: str) -> str:
    """A ConfigMap key cannot hold a slash; two dots stand for it, which no valid path contains."""
    return path.replace("/", "..")


def key_to_path(key: str) -> str:
    return key.replace("..", "/")


def _check_path(path: str) -> None:
    """Also what keeps `path_to_key` reversible: no empty segment, none that ends with a dot, no two dots together."""
    if len(path) > 200 or ".." in path or not all(_SEGMENT.match(segment) for segment in path.split("/")):
        raise InvalidSkill(
            f"{path!r} is no usable path: write folders and a file name of letters, digits, '.', '_' and '-', "
            "relative, without '..' and at most 200 characters long"
        )


def _front_matter(text: str) -> Mapping[str, Any]:
    match = _FRONT_MATTER.match(text)
    if match is None:
        raise InvalidSkill(f"{DOCUMENT} must start with a line '---', YAML fields, and a closing line '---'")
    try:
        front = yaml.safe_load(match[1])
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f" at line {mark.line + 2}" if mark else ""
        raise InvalidSkill(f"{DOCUMENT}: the fields between the '---' lines are not valid YAML{place}") from None
    if not isinstance(front, Mapping):
        raise InvalidSkill(f"{DOCUMENT}: between the '---' lines stand fields such as 'name: {{…}}'")
    return front


def _check_name(front: Mapping[str, Any], *, expected: str) -> None:
    name = _text(front, "name", limit=64, required=True)
    if not _NAME.match(name):
        raise InvalidSkill(f"{DOCUMENT}: name {name!r} may hold lower-case letters, digits and single hyphens inside")
    if name != expected:
        raise InvalidSkill(f"{DOCUMENT}: name is {name!r} and must equal the name of the Skill object, {expected!r}")


def _text(front: Mapping[str, Any], key: str, *, limit: int, required: bool) -> str:
    value = front.get(key)
    if value is None and not required:
        return ""
    if not isinstance(value, str) or not value.strip():
        raise InvalidSkill(f"{DOCUMENT}: {key} must be a text of 1 to {limit} characters")
    if len(value) > limit:
        raise InvalidSkill(f"{DOCUMENT}: {key} has {len(value)} characters, at most {limit} are allowed")
    return value.strip()


def _check_metadata(metadata: Any) -> None:
    if metadata is None:
        return
    if not isinstance(metadata, Mapping) or not all(
        isinstance(key, str) and isinstance(value, str) for key, value in metadata.items()
    ):
        raise InvalidSkill(f"{DOCUMENT}: metadata must map texts to texts; write numbers and dates in quotes")
