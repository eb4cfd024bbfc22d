"""Tools for mounted skills: `load_skill` reads a skill's instructions, `read_skill_file` the other files of its folder.

The folder is read-only. A path that leads outside the folder through `..` or links is rejected. The links that the
kubelet creates are allowed, because they stay inside the folder. `read_skill_file` does not read the instructions,
because loading a skill also applies the skill's tool restrictions.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from fleetwright_agent.config.layout import Layout
from fleetwright_agent.config.tools import Skill
from fleetwright_agent.protocol.fences import fenced
from fleetwright_agent.tools.port import Tool, ToolCall, ToolContext, ToolError

_MOST_FILES = 200
_MOST_CHARACTERS = 50_000
"""The limit for the result of one call."""
_INSTRUCTIONS = "SKILL.md"


def skill_reader(skills: Sequence[Skill], layout: Layout) -> Callable[[str], str | None]:
    """Return a function that reads a skill's instructions by name. It returns `None` if the skill is not mounted."""
    names = {skill.name for skill in skills}

    def read(name: str) -> str | None:
        if name not in names:
            return None
        try:
            return _read(layout.skill(name), _INSTRUCTIONS)
        except ToolError:
            return None

    return read


class SkillTools:
    """Offers `load_skill` and `read_skill_file`."""

    name = "skills"

    def __init__(self, skills: Sequence[Skill], layout: Layout) -> None:
        self._tools = skill_tools(skills, layout)

    async def tools(self, context: ToolContext) -> tuple[Tool, ...]:  # noqa: ARG002 - all turns have the same skills
        return self._tools

    async def close(self) -> None:
        """Do nothing: each call opens and closes its files."""


def skill_tools(skills: Sequence[Skill], layout: Layout) -> tuple[Tool, ...]:
    """Return the tools `load_skill` and `read_skill_file`."""
    names = [skill.name for skill in skills]

    async def load(call: ToolCall) -> str:
        folder = layout.skill(call.arguments["name"])
        body = _read(folder, _INSTRUCTIONS, call.arguments.get("offset", 0))
        files = [path for path in _files(folder) if path != _INSTRUCTIONS]
        listing = "\n".join(files) or "(none)"
        return fenced("skill_content", "a skill mounted by the platform", f"{body}\n\nFiles:\n{listing}")

    async def read(call: ToolCall) -> str:
        folder, path = layout.skill(call.arguments["name"]), call.arguments["path"]
        if (folder / path).resolve() == (folder / _INSTRUCTIONS).resolve():
            raise ToolError(f"path {path!r} is the skill's instructions; use load_skill to read them")
        return _read(folder, path, call.arguments.get("offset", 0))

    name = {"type": "string", "enum": names, "description": "Name of the skill"}
    path = {"type": "string", "description": "Path of the file, as load_skill lists it"}
    offset = {
        "type": "integer",
        "minimum": 0,
        "description": "Where to go on in a text that was cut; its beginning if unset",
    }
    return (
        Tool(
            "load_skill",
            "Read a skill's instructions before doing work it covers.",
            _object({"offset": offset}, name=name),
            load,
            repeatable=True,
        ),
        Tool(
            "read_skill_file",
            "Read one file of a skill.",
            _object({"offset": offset}, name=name, path=path),
            read,
            repeatable=True,
        ),
    )


def _object(optional: Mapping[str, object], **required: object) -> dict[str, object]:
    properties = {**required, **optional}
    return {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}


def _files(folder: Path) -> list[str]:
    """Return the paths of the files. Follow links, because the kubelet links folders, and skip its `..` folders."""
    found: list[str] = []
    for place, folders, files in os.walk(folder, followlinks=True):
        folders[:] = sorted(name for name in folders if not name.startswith(".."))
        found += [str(Path(place, name).relative_to(folder)) for name in sorted(files) if not name.startswith("..")]
        if len(found) > _MOST_FILES:
            break
    return found[:_MOST_FILES]


def _read(folder: Path, relative: str, offset: int = 0) -> str:
    """Raises: ToolError."""
    root = folder.resolve()
    path = (folder / relative).resolve()
    if not path.is_relative_to(root):
        raise ToolError(f"path {relative!r} leads out of the skill's folder; name a file that load_skill lists")
    try:
        text = path.read_text()
    except (FileNotFoundError, IsADirectoryError, NotADirectoryError):
        raise ToolError(f"the skill has no file {relative!r}; load_skill lists its files") from None
    except OSError as error:
        raise ToolError(f"file {relative!r} cannot be read just now: {error.strerror}") from error
    except UnicodeDecodeError:
        raise ToolError(f"file {relative!r} is not text") from None
    if offset and offset >= len(text):
        raise ToolError(f"file {relative!r} has {len(text)} characters; offset must be less")
    end = offset + _MOST_CHARACTERS
    if end < len(text):
        return f"{text[offset:end]}\n[cut: {len(text)} characters in all; go on with offset {end}]"
    return text[offset:]
