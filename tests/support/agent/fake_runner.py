"""A runner in memory: files, and commands with scripted events. It behaves as the HTTP interface of a real one."""

import difflib
import hashlib
import posixpath
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fleetwright_agent.tools.workspace.runner import RunnerError

ROOT = "/workspace"
END = {"exit": 0, "signal": None, "timed_out": False, "stdout_bytes": 0, "stderr_bytes": 0, "seconds": 0.1}


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


@dataclass
class FakeRunner:
    files: dict[str, str] = field(default_factory=dict)
    events: Sequence[Mapping[str, Any]] = ({"end": END},)
    fails: Exception | None = None
    truncates_diffs: bool = False
    settings: Sequence[str] = ()
    """Keys of the configuration of the repository."""
    links: dict[str, str] = field(default_factory=dict)
    """The real paths of links."""
    calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    commands: list[dict[str, Any]] = field(default_factory=list)
    closed: int = 0

    async def call(self, name: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        if self.fails:
            raise self.fails
        self.calls.append((name, dict(arguments)))
        answer: Mapping[str, Any] = getattr(self, f"_{name}")(**arguments)
        return answer

    async def execute(self, arguments: Mapping[str, Any]) -> AsyncIterator[Mapping[str, Any]]:
        if self.fails:
            raise self.fails
        wanted = dict(arguments)
        if any(each["id"] == wanted["id"] for each in self.commands):
            raise RunnerError("exists", "this id was started before")
        self.commands.append(wanted)
        if "--name-only" in wanted.get("argv", ()):
            yield {"stream": "stdout", "text": "".join(f"{key}\0" for key in ("core.bare", *self.settings))}
            yield {"end": END}
            return
        for event in self.events:
            yield event

    async def close(self) -> None:
        self.closed += 1

    def names(self) -> list[str]:
        return [name for name, _ in self.calls]

    def _paths(self, paths: Sequence[str], cwd: str) -> dict[str, Any]:
        found = []
        for path in paths:
            named = posixpath.normpath(posixpath.join(ROOT, cwd, path))
            real = self.links.get(named, named)
            inside = real == ROOT or real.startswith(f"{ROOT}/")
            found.append({"path": path, "real": real, "inside": inside, "exists": real in self.files, "kind": "file"})
        return {"paths": found}

    def _read(self, path: str, offset: int, limit: int) -> dict[str, Any]:
        text = self._text(path)
        lines = text.splitlines(keepends=True)
        shown = lines[offset : offset + limit]
        return {
            "path": path,
            "text": "".join(shown),
            "lines": len(shown),
            "total_lines": len(lines),
            "truncated_lines": 0,
            **self._version(path),
        }

    def _write(self, path: str, content: str, expected: Any, turn: str, dry_run: bool) -> dict[str, Any]:
        created = path not in self.files
        self._check(path, expected)
        return {"path": path, "created": created, **self._change(path, content, dry_run)}

    def _edit(
        self, path: str, old: str, new: str, count: int, expected: Any, turn: str, dry_run: bool
    ) -> dict[str, Any]:
        text = self._text(path)
        self._check(path, expected)
        if text.count(old) != count:
            code = "not_unique" if old in text else "no_match"
            raise RunnerError(code, f"{code}: {old}", {"candidates": [{"line": 1, "text": "x", "differs_at": 0}]})
        changed = self._change(path, text.replace(old, new), dry_run)
        return {"path": path, "strategy": "exact", "applied": not dry_run, **changed}

    def _list(self, path: str, depth: int, limit: int) -> dict[str, Any]:
        entries = [{"name": posixpath.basename(name), "kind": "file", "size": 1} for name in sorted(self.files)]
        return {"path": path, "entries": [*entries, {"name": "src", "kind": "directory", "size": 0}], "truncated": True}

    def _search(self, pattern: str, path: str, limit: int, include: str = "") -> dict[str, Any]:
        found = [
            {"path": name, "line": number, "text": line}
            for name, text in self.files.items()
            for number, line in enumerate(text.splitlines(), 1)
            if pattern in line
        ]
        return {"matches": found[:limit], "truncated": len(found) > limit, "engine": "walk"}

    def _tree(self, depth: int, entries: int) -> dict[str, Any]:
        return {"text": "\n".join(sorted(self.files))}

    def _instructions(self, paths: Sequence[str]) -> dict[str, Any]:
        known = {name: text for name, text in self.files.items() if posixpath.basename(name) == "AGENTS.md"}
        return {"files": [{"path": name, "text": text} for name, text in known.items()]}

    def _text(self, path: str) -> str:
        if path not in self.files:
            raise RunnerError("not_found", f"there is no {path}", {"nearest": sorted(self.files)})
        return self.files[path]

    def _version(self, path: str) -> dict[str, Any]:
        return {"digest": digest(self.files.get(path, "")), "mtime_ns": 1, "size": len(self.files.get(path, ""))}

    def _check(self, path: str, expected: Any) -> None:
        if expected is not None and expected["digest"] != digest(self.files.get(path, "")):
            raise RunnerError("changed", f"{path} has changed")

    def _change(self, path: str, text: str, dry_run: bool) -> dict[str, Any]:
        before = self.files.get(path, "")
        diff = "\n".join(difflib.unified_diff(before.splitlines(), text.splitlines(), lineterm=""))
        if not dry_run:
            self.files[path] = text
        cut = {"diff": diff[:10] if self.truncates_diffs else diff, "diff_truncated": self.truncates_diffs}
        return {**cut, "digest": digest(text), "mtime_ns": 1}
