"""Logs as JSON lines on standard output.

The agent's own loggers use the configured level. Other loggers only log warnings and errors, because libraries log
message contents at lower levels. Log lines contain no message contents, and credentials are redacted.
"""

import json
import logging
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, TextIO

from fleetwright_a2a.redaction.redactor import Redactor
from fleetwright_agent.config.file_watcher import FileWatcher

_OURS: Final = logging.getLogger("fleetwright_agent")
LEVELS: Final = ("debug", "info", "warning", "error")
_STANDARD: Final = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "color_message"}
# This logger logs the contents of invalid requests. The agent itself reports and counts rejections.
_SILENT: Final = "a2a.server.routes.jsonrpc_dispatcher"


class JsonLines(logging.Formatter):
    def __init__(self, redact: Callable[[Any], Any]) -> None:
        super().__init__()
        self._redact = redact

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        line |= {key: value for key, value in record.__dict__.items() if key not in _STANDARD}
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(self._redact(line), ensure_ascii=False, default=str)


class LogLevel:
    """Sets the level of the agent's loggers from a mounted file; without the file, the level at startup applies."""

    def __init__(self, path: Path, *, logger: logging.Logger = _OURS) -> None:
        self._file = FileWatcher(path, _level)
        self._logger = logger
        self._usual = logger.level
        self._wanted: int | None = None
        self._problem: str | None = None

    async def look(self) -> None:
        """Apply the level in the file. If it contains no valid level, apply the level with which the agent started."""
        wanted, problem = self._file.read()
        if wanted != self._wanted:
            self._wanted, level = wanted, self._usual if wanted is None else wanted
            self._logger.setLevel(level)
            self._logger.log(
                max(level, logging.WARNING), "the log level is %s now", logging.getLevelName(level).lower()
            )
        if problem != self._problem:
            self._problem = problem
            if problem and self._file.modified:
                self._logger.warning("the log level in the file is not applied: %s", problem)


def _level(content: bytes) -> int:
    """Raises: ValueError."""
    name = content.decode("ascii", errors="replace").strip()
    if name not in LEVELS:
        raise ValueError(f"write one of {', '.join(LEVELS)}")
    return logging.getLevelNamesMapping()[name.upper()]


def configure(level: str, *, redact: Callable[[Any], Any] | None = None, stream: TextIO = sys.stdout) -> None:
    """Configure logging. Without `redact`, only text in the format of a secret is redacted."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines(redact or Redactor()))
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    _OURS.setLevel(level.upper())
    logging.getLogger(_SILENT).setLevel(logging.CRITICAL)
