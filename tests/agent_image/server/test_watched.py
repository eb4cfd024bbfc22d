"""The file watcher: `read` sees a change immediately, and `recent` sees it within a twentieth of a second."""

import resource
from pathlib import Path

from fleetwright_agent.config.file_watcher import FileWatcher


def test_file_watcher_recent_is_at_most_50_ms_old(tmp_path: Path) -> None:
    file, now = tmp_path / "f", [100.0]
    watched = FileWatcher(file, bytes.decode, monotonic=lambda: now[0])
    file.write_text("one")
    assert watched.recent() == ("one", None)
    file.write_text("another")
    now[0] += 0.049
    assert watched.recent() == ("one", None)
    now[0] += 0.002
    assert watched.recent() == ("another", None)
    file.unlink()
    assert watched.recent() == ("another", None)
    assert watched.read() == (None, "f cannot be read: No such file or directory")
    assert watched.recent() == (None, "f cannot be read: No such file or directory"), "read() updates the cache"


def test_file_watcher_retries_after_a_transient_open_failure(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_text("one")
    watched = FileWatcher(file, bytes.decode)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        found = watched.read()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert found == (None, "f cannot be read: Too many open files")
    assert watched.read() == ("one", None)
