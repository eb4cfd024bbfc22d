"""The lock of the memory volume: who gets it, what others read meanwhile, and volumes whose locks exclude nobody."""

import fcntl
from pathlib import Path

import pytest

from fleetwright_agent.storage.errors import MemoryUnusable
from fleetwright_agent.storage.memory_lock import FILE, MemoryLock

FILES = Path("/proc/self/fd")


@pytest.fixture
def lock_of(tmp_path):
    """Return a function that makes a lock of the same volume for another pod."""
    made = []

    def make(name):
        made.append(MemoryLock(tmp_path / "memory", name=name))
        return made[-1]

    yield make
    for lock in made:
        lock.release_lock()


def test_second_process_reads_the_name_of_the_holder_until_it_releases_the_lock(lock_of):
    first, second = lock_of("coder-1"), lock_of("coder-2")
    assert first.take_lock() == ""
    assert (second.take_lock(), second.is_held) == ("coder-1", False)
    first.release_lock()
    assert (second.take_lock(), second.is_held) == ("", True)
    assert lock_of("coder-3").take_lock() == "coder-2"


def test_holder_keeps_the_lock_if_it_acquires_it_again(lock_of):
    first = lock_of("coder-1")
    assert [first.take_lock(), first.take_lock()] == ["", ""]
    first.release_lock()
    assert lock_of("coder-2").take_lock() == ""


def test_files_are_refused_without_the_lock(lock_of):
    first, second = lock_of("coder-1"), lock_of("coder-2")
    first.take_lock()
    second.take_lock()
    first.check_held()
    with pytest.raises(MemoryUnusable, match="does not hold the lock of the memory volume"):
        second.check_held()


@pytest.mark.parametrize("text", ["", "{", "[1]", '{"holder"', '{"pod": "coder-1"}'])
def test_holder_whose_name_cannot_be_read_is_another_process(lock_of, tmp_path, text):
    lock_of("coder-1").take_lock()
    (tmp_path / "memory" / FILE).write_text(text)
    assert lock_of("coder-2").take_lock() == "another process"


def test_volume_without_exclusive_locks_is_refused(lock_of, monkeypatch):
    monkeypatch.setattr(fcntl, "flock", lambda _file, _operation: None)
    lock = lock_of("coder-1")
    with pytest.raises(OSError, match="does not exclude other processes with flock"):
        lock.take_lock()
    assert not lock.is_held


def test_volume_that_refuses_locks_is_reported_and_can_be_tried_again(lock_of, monkeypatch):
    def refuse(_file, _operation):
        raise OSError(95, "Operation not supported")

    lock, real = lock_of("coder-1"), fcntl.flock
    monkeypatch.setattr(fcntl, "flock", refuse)
    before = len(list(FILES.iterdir()))
    with pytest.raises(OSError, match="Operation not supported"):
        lock.take_lock()
    assert len(list(FILES.iterdir())) == before
    monkeypatch.setattr(fcntl, "flock", real)
    assert lock.take_lock() == ""


def test_lock_that_is_replaced_at_the_same_moment_is_not_taken(lock_of, monkeypatch, tmp_path):
    lock, real = lock_of("coder-1"), fcntl.flock
    path = tmp_path / "memory" / FILE

    def replace(file, operation):
        path.unlink()
        real(file, operation)

    with monkeypatch.context() as patched:
        patched.setattr(fcntl, "flock", replace)
        with pytest.raises(OSError, match="replaced at the same moment"):
            lock.take_lock()
    assert lock.take_lock() == ""
