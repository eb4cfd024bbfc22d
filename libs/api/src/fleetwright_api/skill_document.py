"""Reads a Skill's files according to the Agent Skills specification. Pure.

The files are SKILL.md, which begins with front matter, and the files that it refers to. If the files break a rule of
the specification, an error names the rule. The operator reports the error in a condition; `fleetwright dev` prints it.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import yaml

from fleetwright_api.encoding.canonical_json import digest
from fleetwright_api.encoding.untrusted_json import HALF
from fleetwright_api.spec.skill import NO_NEEDS, PermissionsSpec, SkillNeeds

DOCUMENT = "SKILL.md"
MAX_FILES = 200
LONGEST_HEAD = 8192
"""The maximum length of the front matter in characters. The agent runtime has the same limit in `fetch/folder.py`."""
_DEEPEST = 16
_MOST_OPEN = 64
"""The maximum number of open brackets. It exceeds the nesting limit, because strings may contain brackets too."""
_TOO_DEEP = f"{DOCUMENT}: the fields between the '---' lines are nested more than {_DEEPEST} deep; use fewer levels"
_BRACKETS = re.compile(r"[\[\]{}]")
_NAME = re.compile(r"^[a-z0-9]+(-[a-z0-9]+)*$")
_SEGMENT = re.compile(r"^[A-Za-z0-9._-]*[A-Za-z0-9_-]$")
_FRONT_MATTER = re.compile(r"\A---\r?\n(.*?)\r?\n---[ \t]*(\r?\n|\Z)", re.DOTALL)


class InvalidSkill(ValueError):  # noqa: N818 - the condition's reason has this name
    """The files are not a valid skill; the message names the file or field and the rule."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillContent:
    """A valid skill. `files` is empty if only the metadata is known, for example if the snapshot was not read."""

    name: str
    description: str
    digest: str
    files: Mapping[str, str] = field(default_factory=dict)
    needs: SkillNeeds = NO_NEEDS


def read_skill(name: str, files: Mapping[str, str], *, permissions: PermissionsSpec | None = None) -> SkillContent:
    """Check the files of the Skill object `name`.

    Raises:
        InvalidSkill: A rule is broken.
    """
    return SkillContent(
        name=name,
        description=_check(files, name),
        digest=digest(dict(files)),
        files=dict(files),
        needs=SkillNeeds(permissions=permissions) if permissions else NO_NEEDS,
    )


def _check(files: Mapping[str, str], name: str) -> str:
    if DOCUMENT not in files:
        raise InvalidSkill(f"{DOCUMENT} is missing; add it to the top folder of the skill")
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
    """Check a skill of which only the front matter of SKILL.md and the paths of its files are known.

    Returns: The description.

    Raises:
        InvalidSkill: A rule is broken.
    """
    return _check({path: head if path == DOCUMENT else "" for path in paths}, name)


def files_of(config_map: Mapping[str, Any]) -> dict[str, str]:
    """Return the files in a ConfigMap, by path.

    Raises:
        InvalidSkill: The ConfigMap contains binary data.
    """
    if binary := sorted(config_map.get("binaryData") or ()):
        remedy = "files from a ConfigMap are UTF-8 text; keep others in git or in an image"
        raise InvalidSkill(f"{key_to_path(binary[0])!r} is binary data of its ConfigMap: {remedy}")
    return {key_to_path(key): text for key, text in (config_map.get("data") or {}).items()}


def path_to_key(path: str) -> str:
    """Return the ConfigMap key of a path. A key cannot contain a slash, so each slash is replaced by `..`.

    A valid path contains no `..`, so the replacement is reversible.
    """
    return path.replace("/", "..")


def key_to_path(key: str) -> str:
    return key.replace("..", "/")


def _check_path(path: str) -> None:
    """Check a path. No empty segment, `..` or trailing dot is allowed, so that `path_to_key` is reversible."""
    if len(path) > 200 or ".." in path or not all(_SEGMENT.match(segment) for segment in path.split("/")):
        raise InvalidSkill(
            f"{path!r} is not a valid path; use letters, digits, '.', '_' and '-' in folders and file names, "
            "relative, without '..' and at most 200 characters long"
        )


def _front_matter(text: str) -> Mapping[str, Any]:
    match = _FRONT_MATTER.match(text)
    if match is None:
        raise InvalidSkill(f"{DOCUMENT} must start with a line '---', YAML fields, and a closing line '---'")
    if len(match[0].rstrip()) > LONGEST_HEAD:
        raise InvalidSkill(
            f"{DOCUMENT}: the fields between the '---' lines exceed {LONGEST_HEAD} characters; shorten them"
        )
    _check_brackets(match[1])
    try:
        reader = _Fields(match[1])
        node = reader.get_single_node()
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f" at line {mark.line + 2}" if mark else ""
        raise InvalidSkill(f"{DOCUMENT}: the fields between the '---' lines are not valid YAML{place}") from None
    if not isinstance(node, yaml.MappingNode):
        raise InvalidSkill(f"{DOCUMENT}: the text between the '---' lines must be YAML fields")
    return {str(key.value): _value(reader, str(key.value), value) for key, value in node.value}


class _Fields(yaml.SafeLoader):
    """A YAML loader that rejects aliases and deep nesting, so that a short text cannot take long to parse."""

    _depth = 0

    def compose_scalar_node(self, anchor: dict[Any, yaml.Node]) -> yaml.ScalarNode:
        node = super().compose_scalar_node(anchor)
        if half := HALF.search(node.value):
            written = f"\\u{ord(half[0]):04x}"
            remedy = "write the character itself"
            raise InvalidSkill(f"{DOCUMENT}: {written} between the '---' lines is half of a surrogate pair; {remedy}")
        return node

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            raise InvalidSkill(
                f"{DOCUMENT}: a value that begins with '*' is a YAML alias; write the value out, or quote it"
            )
        if self._depth == _DEEPEST:
            raise InvalidSkill(_TOO_DEEP)
        self._depth += 1
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node


def _check_brackets(text: str) -> None:
    """Limit the number of open brackets before parsing, because the parser's time per token grows with this number."""
    depth = 0
    for bracket in _BRACKETS.findall(text):
        depth = depth + 1 if bracket in "[{" else max(0, depth - 1)
        if depth > _MOST_OPEN:
            raise InvalidSkill(_TOO_DEEP)


def _value(reader: yaml.SafeLoader, field: str, node: yaml.Node) -> Any:
    try:
        return reader.construct_object(node, deep=True)
    except Exception:  # The constructors raise errors of many types, for example for an invalid date or tag.
        remedy = "quote texts, dates and numbers, and remove tags such as '!!bool'"
        raise InvalidSkill(f"{DOCUMENT}: {field} has a value that cannot be read; {remedy}") from None


def _check_name(front: Mapping[str, Any], *, expected: str) -> None:
    name = _text(front, "name", limit=64, required=True)
    if not _NAME.match(name):
        raise InvalidSkill(
            f"{DOCUMENT}: name {name!r} may have only lower-case letters, digits and single hyphens inside"
        )
    if name != expected:
        raise InvalidSkill(f"{DOCUMENT}: name is {name!r} and must equal the name of the Skill object, {expected!r}")


def _text(front: Mapping[str, Any], key: str, *, limit: int, required: bool) -> str:
    value = front.get(key)
    if value is None and not required:
        return ""
    if not isinstance(value, str) or not value.strip():
        raise InvalidSkill(f"{DOCUMENT}: {key} must be a string of 1 to {limit} characters")
    if len(value) > limit:
        raise InvalidSkill(f"{DOCUMENT}: {key} has {len(value)} characters, at most {limit} are allowed")
    return value.strip()


def _check_metadata(metadata: Any) -> None:
    if metadata is None:
        return
    if not isinstance(metadata, Mapping) or not all(
        isinstance(key, str) and isinstance(value, str) for key, value in metadata.items()
    ):
        raise InvalidSkill(f"{DOCUMENT}: metadata must map strings to strings; quote numbers and dates")
