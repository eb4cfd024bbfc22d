"""Runs the program `gateway_callers.py` in a pod, and reads what its callers experience."""

import json
import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from e2e.scenarios import gateway_callers
from e2e.scenarios.fleet import Caller

_PROGRAM = Path(gateway_callers.__file__).read_text()
_WORDS = re.compile(r"\[\[long:(\d+)\]\]")
Step = dict[str, Any]


def story(words: int, *, pause: float = 0.5) -> str:
    """Return a message whose answer has this number of words, with a pause after each."""
    return f"Tell me a story. [[long:{words}]] [[pause:{pause}]]"


def answer_to(asked: str) -> str:
    """Return the answer of the offline model to a message from `story`."""
    found = _WORDS.search(asked)
    assert found is not None
    return " ".join(f"word{number}" for number in range(int(found[1])))


@dataclass
class Load:
    caller: Caller
    steps: list[Step] = field(default_factory=list)
    """The lines of the program, in their order."""
    ended: threading.Event = field(default_factory=threading.Event)

    def read(self, output: IO[str]) -> None:
        for line in output:
            self.steps.append(json.loads(line))
        self.ended.set()

    def of(self, step: str) -> list[Step]:
        return [each for each in list(self.steps) if each["step"] == step]

    def messages(self, step: str) -> set[str]:
        """Return the ids of the messages that had this step."""
        return {each["id"] for each in self.of(step)}

    def stop(self) -> None:
        """Let the senders stop, and wait until every message is answered."""
        self.caller.fleet.run("exec", self.caller.pod, "--", "touch", str(gateway_callers.STOP))
        self.caller.fleet.until(self.ended.is_set, "every message is answered")


@contextmanager
def load(
    caller: Caller, agent: str, *, token: str, senders: int = 0, calls: Sequence[str] = (), streams: Sequence[str] = ()
) -> Iterator[Load]:
    """Run the callers until the block ends. Their program ends by itself after `stop`."""
    plan = {
        "url": caller.gateway_url(agent),
        "token": token,
        "senders": senders,
        "short": story(8, pause=0.1),
        "calls": calls,
        "streams": streams,
    }
    where = f"--namespace={caller.fleet.namespace}"
    command = ("exec", caller.pod, where, "--", "python", "-c", _PROGRAM, json.dumps(plan))
    with caller.fleet.kubectl.following(*command) as output:
        found = Load(caller)
        threading.Thread(target=found.read, args=(output,), daemon=True).start()
        yield found
