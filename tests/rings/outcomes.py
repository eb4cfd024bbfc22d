"""A pytest plugin that records the outcome of each test as a line of JSON, and the reader of these lines.

The runner needs to know which tests failed, to repeat them, and which are still open when a ring reaches its ceiling.
"""

import json
import os
from dataclasses import dataclass, field
from pathlib import Path

import pytest

VARIABLE = "FLEETWRIGHT_TEST_OUTCOMES"
"""The path of the file to write. Without it, the plugin records nothing."""
_LONGEST_TEXT = 20_000


class _Recorder:
    def __init__(self, path: Path) -> None:
        self._file = path.open("a", buffering=1)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        if session.items:  # The process that starts workers of xdist collects nothing.
            self._write("collected", "", text=str(len(session.items)))

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: list[str]) -> None:
        self._write("collected", "", text=str(len(ids)))

    def _write(self, event: str, test: str, **more: str) -> None:
        self._file.write(json.dumps({"event": event, "test": test, **more}) + "\n")

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._write("start", nodeid)

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self._write("end", nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            sections = "".join(f"\n--- {title}\n{text}" for title, text in report.sections)
            text = f"{report.longreprtext}{sections}"[-_LONGEST_TEXT:]
            self._write("failed", report.nodeid, when=report.when or "", text=text)
        elif report.skipped:
            reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longreprtext
            self._write("skipped", report.nodeid, text=reason[-_LONGEST_TEXT:])
        elif report.when == "call":
            self._write("passed", report.nodeid)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._write("uncollected", report.nodeid, text=report.longreprtext[-_LONGEST_TEXT:])


def pytest_configure(config: pytest.Config) -> None:
    path = os.environ.get(VARIABLE)
    if path and not hasattr(config, "workerinput"):  # Workers of xdist report to the process that started them.
        config.pluginmanager.register(_Recorder(Path(path)))


@dataclass
class Outcomes:
    """The outcomes of a ring so far. A test that failed in any phase is in `failed` only."""

    passed: set[str] = field(default_factory=set)
    failed: dict[str, str] = field(default_factory=dict)
    failed_at_end: set[str] = field(default_factory=set)
    """The failed tests whose teardown failed. It may have been the teardown of a fixture of the whole session."""
    skipped: dict[str, str] = field(default_factory=dict)
    uncollected: dict[str, str] = field(default_factory=dict)
    open: set[str] = field(default_factory=set)
    """The tests that have started and not ended."""
    collected: int = 0

    @property
    def unreported(self) -> int:
        """The number of collected tests without an outcome, as after the crash of a worker."""
        return max(0, self.collected - len(self.passed | self.failed.keys() | self.skipped.keys()))


def read_outcomes(path: Path) -> Outcomes:
    """Return the outcomes in the file. A last line that is incomplete, because pytest was killed, does not count."""
    found = Outcomes()
    lines = path.read_text().split("\n")[:-1] if path.exists() else []
    for line in lines:
        record = json.loads(line)
        test, text = record["test"], record.get("text", "")
        match record["event"]:
            case "start":
                found.open.add(test)
            case "end":
                found.open.discard(test)
            case "failed":
                found.failed[test] = found.failed[test] + "\n" + text if test in found.failed else text
                if record["when"] == "teardown":
                    found.failed_at_end.add(test)
            case "skipped":
                found.skipped[test] = text
            case "collected":
                found.collected = int(text)
            case "uncollected":
                found.uncollected[test] = text
            case _:
                found.passed.add(test)
    found.passed -= found.failed.keys()
    return found
