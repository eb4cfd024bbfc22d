"""Searches file contents with a process of its own: ripgrep, or `walk_search` if the image has no ripgrep.

A pattern can take exponential time, and Python's regular expressions do not release the interpreter lock. A process can
be ended after its time, so a hostile pattern never stops the runner.

A command may replace a file by a symbolic link while ripgrep walks, and ripgrep would follow it. So every match is
compared with the file below the root, opened without following links. A single file is opened first and then searched.
"""

from __future__ import annotations

import codecs
import os
import selectors
import shutil
import stat
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence

from fleetwright_workspace.files.call_error import CallError
from fleetwright_workspace.files.folders import VENDORED
from fleetwright_workspace.files.root import Location, WorkspaceRoot

LONGEST_PATTERN = 1000
LONGEST_LINE = 500
MOST_RESULTS = 1000
SECONDS = 30.0
OUTPUT_LIMIT = 10 * 1024 * 1024
_CHUNK = 1 << 18
_ERROR_LIMIT = 2000
_LARGEST_FILE = 1 << 20
_COMPARED = 100
"""Characters of a line that are compared. ripgrep shows only the first 500 bytes of a long line."""
_BAD_PATTERN = 2
_MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_MODULE = "fleetwright_workspace.files.walk_search"
_WALK = f"import sys; del sys.path[0]; import runpy; runpy.run_module({_MODULE!r}, run_name='__main__')"
"""Python would import modules of the searched folder, which is the current folder of the process."""
_SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


class FileSearch:
    def __init__(self, root: WorkspaceRoot, *, ripgrep: str | None, seconds: float = SECONDS) -> None:
        """Args: `ripgrep` is the path of its program, or None for the walk."""
        self._root = root
        self._ripgrep = ripgrep
        self._seconds = seconds

    def run(self, pattern: str, location: Location, *, include: str, limit: int) -> dict[str, object]:
        """Return the matches, those of the newest file first.

        Raises:
            CallError: The folder does not exist, or the pattern is invalid.
        """
        status = self._root.status(location)
        if status is None:
            raise CallError("not_found", f"{location.path} does not exist")
        command = self._command(pattern, include, limit)
        if not stat.S_ISDIR(status.st_mode):
            with self._root.file(location) as (descriptor, _):
                output, truncated = self._output([*command, "-"], self._root.descriptor, descriptor)
            found = {location.path: [line for lines in parse_matches(output).values() for line in lines]}
            return self._answer(found, limit, truncated=truncated, verified=True)
        with self._root.folder(location) as folder:
            output, truncated = self._output([*command, "."], folder, subprocess.DEVNULL)
        prefix = "" if location.path == "." else f"{location.path}/"
        found = {prefix + path: lines for path, lines in parse_matches(output).items()}
        return self._answer(found, limit, truncated=truncated, verified=False)

    def _answer(
        self, found: Mapping[str, list[tuple[int, str]]], limit: int, *, truncated: bool, verified: bool
    ) -> dict[str, object]:
        matches: list[dict[str, object]] = []
        for path in self._newest_first(found):
            room = limit - len(matches)
            if not room:
                truncated = True
                break
            lines = found[path] if verified else self._verified(path, found[path])
            truncated = truncated or len(lines) > room
            matches += [{"path": path, "line": line, "text": text} for line, text in lines[:room]]
        return {"matches": matches, "truncated": truncated, "engine": "walk" if self._ripgrep is None else "rg"}

    def _verified(self, path: str, lines: list[tuple[int, str]]) -> list[tuple[int, str]]:
        """Return the matches that the file contains. The walk may have followed a link to another file."""
        try:
            location = Location(tuple(path.split("/")), ())
            with self._root.file(location) as (descriptor, _), open(descriptor, "rb", closefd=False) as file:
                present = _text(file.read(_LARGEST_FILE)).split("\n")
        except (CallError, OSError, ValueError):
            return []
        return [
            (number, text)
            for number, text in lines
            if 0 < number <= len(present) and present[number - 1].startswith(text[:_COMPARED])
        ]

    def _command(self, pattern: str, include: str, limit: int) -> list[str]:
        if self._ripgrep is None:
            return [sys.executable, "-c", _WALK, pattern, include, str(limit + 1)]
        words = [self._ripgrep, "--no-config", "--no-heading", "--with-filename", "--line-number", "--null", "--hidden"]
        words += ["--color=never", "--no-messages", "--max-filesize=1M", f"--max-count={limit + 1}"]
        words += [f"--max-columns={LONGEST_LINE}", "--max-columns-preview"]
        for name in sorted(VENDORED):
            words.append(f"--glob=!**/{name}/**")
        if include:
            words.append(f"--glob={include}")
        return [*words, "--regexp", pattern, "--"]

    def _output(self, command: Sequence[str], folder: int, stdin: int) -> tuple[bytes, bool]:
        """Run the command in the folder. Return its output, and whether it was cut by size or time."""
        try:
            process = subprocess.Popen(
                command,
                stdin=stdin,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=f"/proc/self/fd/{folder}",
                pass_fds=(folder,),
                env=_environment(),
                start_new_session=True,
            )
        except OSError as error:
            raise CallError("bad_request", f"the search cannot be started: {error.strerror}") from None
        with process:
            try:
                output, errors, truncated = _collect(process, time.monotonic() + self._seconds)
            finally:
                process.kill()
        if process.returncode == _BAD_PATTERN and not output:
            raise CallError("bad_request", f"pattern or include: {errors.strip() or 'not valid'}")
        return output, truncated

    def _newest_first(self, found: Iterable[str]) -> list[str]:
        times: dict[str, int] = {}
        for path in found:
            try:
                times[path] = os.lstat(path, dir_fd=self._root.descriptor).st_mtime_ns
            except (OSError, ValueError):
                times[path] = 0
        return sorted(times, key=lambda path: (-times[path], path))


def find_ripgrep() -> str | None:
    return shutil.which("rg")


def parse_matches(output: bytes) -> dict[str, list[tuple[int, str]]]:
    """Return the matches of each file from lines of `path NUL number : text`. A cut last line is omitted."""
    found: dict[str, list[tuple[int, str]]] = {}
    for line in output.split(b"\n")[:-1]:
        path, separator, rest = line.partition(b"\0")
        number, _, text = rest.partition(b":")
        if separator and number.isdigit():
            name = path.decode(errors="replace")
            shown = text.decode(errors="replace").rstrip("\r")[:LONGEST_LINE]
            found.setdefault(name[2:] if name.startswith("./") else name, []).append((int(number), shown))
    return found


def _collect(process: subprocess.Popen[bytes], deadline: float) -> tuple[bytes, str, bool]:
    assert process.stdout is not None  # noqa: S101 - both are pipes
    assert process.stderr is not None  # noqa: S101 - same
    output, errors = bytearray(), bytearray()
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ, output)
        selector.register(process.stderr, selectors.EVENT_READ, errors)
        while selector.get_map():
            left = deadline - time.monotonic()
            if left <= 0 or len(output) >= OUTPUT_LIMIT:
                return bytes(output), "", True
            for key, _ in selector.select(left):
                data = os.read(key.fd, _CHUNK)
                if not data:
                    selector.unregister(key.fileobj)
                elif key.data is output or len(errors) < _ERROR_LIMIT:
                    key.data.extend(data)
    process.wait()
    return bytes(output), errors.decode(errors="replace")[:_ERROR_LIMIT], False


def _text(data: bytes) -> str:
    """Return the text as ripgrep reads it: a byte order mark names the encoding, and is not part of the text."""
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return data[len(mark) :].decode(encoding, errors="replace")
    return data.decode(errors="replace")


def _environment() -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "LC_ALL") if name in os.environ}
    return {**kept, "PYTHONPATH": _SOURCE}
