"""Logs as JSON lines: time, level, logger, message, the object's key, and the traceback of an unexpected error."""

import json
import logging
import sys
from typing import Any

_PLAIN = set(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", "color_message"}
_KOPF = {"settings", "k8s_skip", "k8s_ref"}
"""Attributes that kopf adds to log records for its own use."""


class JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": f"{self.formatTime(record, '%Y-%m-%dT%H:%M:%S')}.{int(record.msecs):03d}",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        line |= {key: value for key, value in vars(record).items() if key not in _PLAIN | _KOPF}
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def configure(level: str = "INFO") -> None:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    logging.basicConfig(level=level, handlers=[handler], force=True)
    # kopf logs every event of every object at its debug and info levels.
    logging.getLogger("kopf").setLevel(logging.WARNING)
    # kopf 1.45 warns that it ignores signals in a thread; `__main__` handles them.
    logging.getLogger("kopf._core.reactor.running").setLevel(logging.ERROR)
