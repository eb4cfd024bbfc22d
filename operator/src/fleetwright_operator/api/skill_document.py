"""A Skill's files, read by the Agent Skills rules: SKILL.md with front matter, and beside it what it refers to.

Pure. Refuses what an agent could not load, with the rule that was broken: the operator says so in a condition
and `fleetwright dev` on the terminal.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import yaml

from fleetwright_operator.encoding.canonical_json import digest
from fleetwright_operator.encoding.untrusted_json import HALF

DOCUMENT = "SKILL.md"
MAX_FILES = 200
LONGEST_HEAD = 8192
"""Of the document, up to the line that closes its fields; as `fetch/folder.py` of the runtime has it."""
_DEEPEST = 16
_MOST_OPEN = 64
"""Brackets in a text are no parts, so there may be more of them."""
_TOO_DEEP = f"{DOCUMENT}: the fields between the '---' lines go more than {_DEEPEST} parts deep: write them flat"
_BRACKETS = re.compile(r"[\[\]{}]")
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


def files_of(config_map: Mapping[str, Any]) -> dict[str, str]:
    """What a ConfigMap holds as files.

    Raises:
        InvalidSkill: Not all of it is text.
    """
    if binary := sorted(config_map.get("binaryData") or ()):
        remedy = "files from a ConfigMap are UTF-8 text; keep others in git or in an image"
        raise InvalidSkill(f"{key_to_path(binary[0])!r} is binary data of its ConfigMap: {remedy}")
    return {key_to_path(key): text for key, text in (config_map.get("data") or {}).items()}


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
    if len(match[0].rstrip()) > LONGEST_HEAD:
        raise InvalidSkill(f"{DOCUMENT}: the fields between the '---' lines have more than {LONGEST_HEAD} letters")
    _check_brackets(match[1])
    try:
        reader = _Fields(match[1])
        node = reader.get_single_node()
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f" at line {mark.line + 2}" if mark else ""
        raise InvalidSkill(f"{DOCUMENT}: the fields between the '---' lines are not valid YAML{place}") from None
    if not isinstance(node, yaml.MappingNode):
        raise InvalidSkill(f"{DOCUMENT}: between the '---' lines stand fields such as 'name: {{…}}'")
    return {str(key.value): _value(reader, str(key.value), value) for key, value in node.value}


class _Fields(yaml.SafeLoader):
    """Reads no more than fields need, so that a short text is never a long work: a name for a part may be used again
    and again, and a part within a part has no end.
    """

    _depth = 0

    def compose_scalar_node(self, anchor: dict[Any, yaml.Node]) -> yaml.ScalarNode:
        node = super().compose_scalar_node(anchor)
        if half := HALF.search(node.value):
            written = f"\\u{ord(half[0]):04x}"
            remedy = "write the letter itself"
            raise InvalidSkill(f"{DOCUMENT}: {written} between the '---' lines is half a letter: {remedy}")
        return node

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            raise InvalidSkill(
                f"{DOCUMENT}: a value that begins with '*' stands for another: write it out, or in quotes"
            )
        if self._depth == _DEEPEST:
            raise InvalidSkill(_TOO_DEEP)
        self._depth += 1
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node


def _check_brackets(text: str) -> None:
    """Of a line with many that are open, the parser looks at all for each word, before it says a thing."""
    depth = 0
    for bracket in _BRACKETS.findall(text):
        depth = depth + 1 if bracket in "[{" else max(0, depth - 1)
        if depth > _MOST_OPEN:
            raise InvalidSkill(_TOO_DEEP)


def _value(reader: yaml.SafeLoader, field: str, node: yaml.Node) -> Any:
    try:
        return reader.construct_object(node, deep=True)
    except Exception:  # it raises whatever it meets: a day that no month has, a type that the text is not of
        remedy = "write texts, dates and numbers in quotes, and no type such as '!!bool' before them"
        raise InvalidSkill(f"{DOCUMENT}: {field} has a value that cannot be read: {remedy}") from None


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
