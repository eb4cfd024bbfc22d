"""Limits the memory in which a repository is unpacked, so that a large object is an error of the command.

A pack of a megabyte can contain an object of a gigabyte. The kernel would kill the container without a message.
"""

import ctypes
import multiprocessing
import os
import pickle
import re
import resource
import signal
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final

from fleetwright_agent.config.mounted_files import ConfigurationError

_CGROUPS: Final = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))
"""The files with the limit of the container, for versions 2 and 1 of cgroups."""
_NO_LIMIT: Final = 2**60
"""Version 1 of cgroups has a number of this size if there is no limit."""
_MEMORY: Final = Path("/proc/meminfo")
_SHARE: Final = 0.85
"""The rest is for what the limit does not count: the code of libraries, and memory that the child copies on writing.

The limit also counts the memory that the child shares with its parent.
"""
_AVAILABLE: Final = re.compile(r"^MemAvailable:\s*(\d+) kB$", re.MULTILINE)
_PR_SET_PDEATHSIG: Final = 1
_MEBIBYTE: Final = 1024 * 1024


def run_within_memory(work: Callable[[], None], *, cgroups: Sequence[Path] = _CGROUPS, memory: Path = _MEMORY) -> None:
    """Run `work` in a child process, and limit its data (RLIMIT_DATA) to a share of the memory of the container.

    Outside of a container, and in one without a limit, it is a share of the memory that the machine has free.

    dulwich applies deltas in compiled code, which aborts the process if memory is exhausted. So the limit applies to a
    child.

    Args:
        work: It changes files only.
        cgroups: Files with the limit of the container in bytes, or `max`.
        memory: The file with the line `MemAvailable` (proc_meminfo(5)).

    Raises:
        ConfigurationError: The repository needs more memory. A later attempt may transfer less of it.
        ChildProcessError: The child ended without a result.
        Exception: An error of the work, with the traceback of the child as a note.
    """
    limit = _choose_limit(cgroups, memory)
    receiver, sender = multiprocessing.Pipe(duplex=False)
    arguments = (limit, work, sender, os.getpid())
    child = multiprocessing.get_context("fork").Process(target=_run_limited_work, args=arguments)
    with receiver:
        with sender:
            child.start()
        try:
            error: BaseException | None = receiver.recv()
        except EOFError:
            child.join()
            error = _explain_end(child.exitcode)
        except BaseException:
            child.kill()
            raise
        finally:
            child.join()
    if isinstance(error, MemoryError):
        size = "the available memory" if limit == resource.RLIM_INFINITY else f"{limit // _MEBIBYTE} MiB of memory"
        raise ConfigurationError(
            f"the repository needs more than {size} to unpack; "
            "remove its large files, also from its history, or use a smaller repository"
        )
    if error is not None:
        raise error


def _explain_end(exit_code: int | None) -> Exception:
    if exit_code in {-signal.SIGABRT, -signal.SIGKILL}:
        # The compiled code has aborted, or the kernel has killed the child for the memory of the container.
        return MemoryError()
    return ChildProcessError(f"the process that unpacks the repository ended with {exit_code} and no result")


def _run_limited_work(
    limit: int, work: Callable[[], None], report: "Connection[Exception | None, object]", parent: int
) -> None:
    with suppress(AttributeError):  # Other systems than Linux lack this call.
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # The parent ended before the call.
        return
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    try:
        resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))
        work()
    except MemoryError:
        resource.setrlimit(resource.RLIMIT_DATA, (hard, hard))
        report.send(MemoryError())
    except Exception as error:
        resource.setrlimit(resource.RLIMIT_DATA, (hard, hard))
        report.send(_make_picklable(error))
    else:
        report.send(None)


def _make_picklable(error: Exception) -> Exception:
    """Return the error with its traceback as a note, or as a RuntimeError if a pickle cannot restore it."""
    trace = "".join(traceback.format_exception(error))
    error.add_note(trace)
    try:
        pickle.loads(pickle.dumps(error))  # noqa: S301 - the data is our own
    except Exception:
        return RuntimeError(trace)
    return error


def _choose_limit(cgroups: Sequence[Path], memory: Path) -> int:
    soft, _ = resource.getrlimit(resource.RLIMIT_DATA)
    sizes = [size for text in map(_read_text, cgroups) if text.isdigit() and (size := int(text)) < _NO_LIMIT]
    if not sizes:
        sizes = [int(kibibytes) * 1024 for kibibytes in _AVAILABLE.findall(_read_text(memory))]
    limits = [int(size * _SHARE) for size in sizes] + [soft] * (soft != resource.RLIM_INFINITY)
    return min(limits, default=resource.RLIM_INFINITY)


def _read_text(file: Path) -> str:
    """Return the content of a file; empty if this system does not have it."""
    try:
        return file.read_text().strip()
    except OSError:
        return ""
