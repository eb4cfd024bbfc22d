"""The measures of `make bench-terminal`. Each takes a folder for files and returns rows."""

import asyncio
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from tests.bench.parts import Part
from tests.bench.table import Row
from tests.bench.terminal.measured_pty import FULL_CLEAR, KEYS, MeasuredPty
from tests.bench.terminal.word_agent import words
from tests.support.cli.fleet import environment, running_fleet
from tests.support.machine import ceiling
from tests.support.waiting import wait_until

_KEY_SECONDS = 0.25
_BYTES, _ECHO_MS, _START_SECONDS = 12.0, 20.0, 0.4


async def start(folder: Path, *, starts: int = 9) -> list[Row]:
    """The time from the start of the program to its prompt."""
    with _agent(folder) as url:
        await asyncio.to_thread(_start_seconds, url, folder)  # The first start reads the files from the disk.
        found = [await asyncio.to_thread(_start_seconds, url, folder) for _ in range(starts)]
    return [Row("start to prompt, median", statistics.median(found), "s", _START_SECONDS)]


async def streaming(folder: Path, *, number: int = 3000) -> list[Row]:
    """A long answer, one event a word, at 100 words a second."""
    with _agent(folder) as url, _chat(url, folder) as chat:
        length = len("".join(words(number)))
        return await asyncio.to_thread(_streamed, chat, "stream", str(number), length, _last(number))


async def turns(folder: Path, *, number: int = 1000, earlier: int = 500) -> list[Row]:
    """The same after many turns in one terminal."""
    with _agent(folder) as url, _chat(url, folder) as chat:
        await asyncio.to_thread(_fill, chat, earlier)
        length = len("".join(words(number)))
        name = f"after {earlier} turns"
        return await asyncio.to_thread(_streamed, chat, name, str(number), length, _last(number))


async def fleet(folder: Path, *, number: int = 3000) -> list[Row]:
    """The same with a real agent, which merges the words of its model into ten events a second."""
    (folder / "real").mkdir()
    with running_fleet(folder / "real") as running:
        command = running.words("chat", "--state", str(running.state), "desk")
        chat = MeasuredPty(command, environment(running.home))
        try:
            await asyncio.to_thread(chat.until, lambda: "ready" in chat.plain())
            length = sum(len(f"word{place} ") for place in range(number))
            prompt = f"Talk. [[long:{number}]] [[pause:0.01]]"
            return await asyncio.to_thread(_streamed, chat, "real agent", prompt, length, _last(number))
        finally:
            chat.end()


def _last(count: int) -> str:
    """Return the last word of an answer. It is written in one piece when its block moves to the scrollback."""
    return f"word{count - 1}"


def _start_seconds(url: str, folder: Path) -> float:
    chat = MeasuredPty(_command(url), environment(folder))
    try:
        chat.until(lambda: "connecting" in chat.plain())
        return time.perf_counter() - chat.began
    finally:
        chat.end()


def _streamed(chat: MeasuredPty, name: str, prompt: str, characters: int, last: str) -> list[Row]:
    """Stream an answer, and type a key four times a second meanwhile."""
    chat.quiet()
    start, began, used = len(chat.output), time.perf_counter(), chat.cpu_seconds()
    chat.type(f"{prompt}\r")
    chat.until(lambda: "working" in chat.plain(start))
    echoes: list[float] = []
    typed = 0
    while last not in chat.plain(max(start, len(chat.output) - 4000)):
        if typed == len(KEYS):
            chat.type("\x15")  # Ctrl-U clears the input. Only then does the next key change a cell.
            _pause(chat, _KEY_SECONDS)
            typed = 0
        echoes.append(chat.echo(KEYS[typed]))
        typed += 1
        _pause(chat, _KEY_SECONDS)
    seconds, used = time.perf_counter() - began, chat.cpu_seconds() - used
    written = bytes(chat.output[start:])
    chat.type("\x15")
    return [
        Row(f"{name}: bytes for each character", len(written) / characters, "B", _BYTES),
        Row(f"{name}: full clears", written.count(FULL_CLEAR), "", 0.0),
        Row(f"{name}: key to echo, p50", statistics.median(echoes), "ms"),
        Row(f"{name}: key to echo, p95", statistics.quantiles(echoes, n=20)[-1], "ms", _ECHO_MS),
        Row(f"{name}: processor", 100 * used / seconds, "%"),
        Row(f"{name}: resident memory", chat.megabytes(), "MB"),
    ]


def _pause(chat: MeasuredPty, seconds: float) -> None:
    """Read for a while."""
    until = time.perf_counter() + seconds
    while (left := until - time.perf_counter()) > 0:
        chat.read(left)


def _fill(chat: MeasuredPty, turns: int) -> None:
    """Have many turns in this terminal."""
    for turn in range(turns):
        start = len(chat.output)
        chat.type(f"turn{turn}x\r")
        chat.until(partial(_has_answered, chat, start, turn))


def _has_answered(chat: MeasuredPty, start: int, turn: int) -> bool:
    return f"answer to turn{turn}x" in chat.plain(start)


def _command(url: str) -> list[str]:
    return [sys.executable, "-m", "fleetwright_cli", "chat", "--url", url, "words"]


@contextmanager
def _chat(url: str, folder: Path) -> Iterator[MeasuredPty]:
    chat = MeasuredPty(_command(url), environment(folder))
    try:
        chat.until(lambda: "ready" in chat.plain())
        yield chat
    finally:
        chat.end()


@contextmanager
def _agent(folder: Path) -> Iterator[str]:
    """Run the agent of words, and yield its address."""
    port = folder / "port"
    port.unlink(missing_ok=True)
    process = subprocess.Popen([sys.executable, "-m", "tests.bench.terminal.word_agent", str(folder)])
    try:
        number = wait_until(lambda: port.exists() and port.read_text(), "the agent of words listens")
        yield f"http://127.0.0.1:{number}"
    finally:
        process.terminate()
        process.wait(ceiling())


PARTS = {
    "start": Part(start, {"starts": 1}),
    "stream": Part(streaming, {"number": 200}),
    "turns": Part(turns, {"number": 200, "earlier": 3}),
    "fleet": Part(fleet, {"number": 200}),
}
