"""The model's reply to a request: tool calls while its plan has steps left, then text. Pure."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fleetwright_cli.offline.filler_text import letter
from fleetwright_cli.offline.planning import PlannedCall, demanded, plan
from fleetwright_cli.offline.words import own, sentences, words

_RECALL = re.compile(r"\b(remember|recall|did i|have i|i told|i said|earlier|before|my|our)\b", re.IGNORECASE)
_SUMMARISE = re.compile(r"^\s*summari[sz]e\b", re.IGNORECASE)
_THINK = re.compile(r"\[\[think:(\d+)\]\]")
_LONG = re.compile(r"\[\[long:(\d+)\]\]")
_LETTER = re.compile(r"\[\[letter:(\d+)\]\]")
_TOGETHER = "[[together]]"
"""All remaining calls in one reply, instead of one after the other."""
_NOTE = re.compile(r"\s*(note:|please continue\b)", re.IGNORECASE)
_AGAIN = re.compile(r"\[\[again:(\d+)(!?)\]\]")
"""Repeats the first call N times, until a note asks the model to stop; with an exclamation mark, even then."""
_MUTE = re.compile(r"\[\[mute:(\d+)\]\]")
"""The first N replies to tool results are empty."""
_MARKER = re.compile(r'("[^"]*")|\[\[[^\]]*\]\]')
_FENCE = re.compile(r"</?[a-z_]+(?: note=\"[^\"]*\")?>")
_DATA = re.compile(r"\s*(?:<(?P<tag>[a-z_]+) note=\"[^\"]*\">.*</(?P=tag)>\s*)+", re.DOTALL)
"""A message that consists only of marked data and contains no request."""
_ASKS_BACK = re.compile(
    r'call this tool again with (?P<place>\w+) "(?P<value>[^"]+)" and the answer as (?P<message>\w+)'
)
_EXTRACT = 220
_ENOUGH = 2
_QUESTION = re.compile(r"\?\s*$|^\s*(?:when|where|which|what|how)\b", re.IGNORECASE)
_GREETING = re.compile(r"\s*(good (?:morning|day|evening)|hello)\b", re.IGNORECASE)
_DOCUMENT = re.compile(r"\s*---\n")
"""The front matter that a SKILL.md begins with."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A reply with either text or calls."""

    text: str = ""
    thought: str = ""
    calls: tuple[PlannedCall, ...] = ()


def submission(name: str, messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]]) -> Answer:
    """Return the call that the request demands, with arguments from the newest user message.

    Arguments that the message does not contain are left out. If the call was refused before,
    they get default values of their type.
    """
    asked_at = max((i for i, message in enumerate(messages) if message["role"] == "user"), default=0)
    refused = any(message["role"] == "tool" for message in messages[asked_at + 1 :])
    function = next(tool["function"] for tool in tools if tool["function"]["name"] == name)
    return Answer(calls=(demanded(text_of(messages[asked_at]), function, complete=refused),))


def thinking(asked: str, reply: Answer) -> Answer:
    """Return the reply with as many words of reasoning as `[[think:N]]` asks for."""
    found = _THINK.search(own(asked))
    return replace(reply, thought=" ".join(f"thought{i}" for i in range(int(found.group(1))))) if found else reply


def halved(reply: Answer) -> Answer:
    """Return the first half of the reply, as if the output limit was reached."""
    words = reply.text.split(" ")
    return replace(reply, text=" ".join(words[: -(-len(words) // 2)]))


def answer(messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]]) -> Answer:
    """Return the reply to a chat completions request."""
    said_at = newest_said(messages)
    if said_at >= 0 and _SUMMARISE.match(text_of(messages[said_at])):
        return Answer(_summary(messages[:said_at]))
    asked_at = _asked(messages, said_at)
    asked = text_of(messages[asked_at]) if asked_at >= 0 else ""
    results = [message for message in messages[asked_at + 1 :] if message["role"] == "tool"]
    steps = _steps(asked, tools, noted=bool(results) and said_at > asked_at)
    if results and (mute := _MUTE.search(own(asked))) and _notes(messages) < int(mute.group(1)):
        return Answer()
    if results and (call := _answering(results[-1], messages, tools)):
        return Answer(calls=(call,))
    done = len(results) - _answered(results, messages[asked_at + 1 :])
    if done < len(steps):
        left = steps[done:]
        return Answer(calls=tuple(left if _TOGETHER in own(asked) else left[:1]))
    if results:
        return Answer("Here is what I found. " + " ".join(_findings([text_of(each) for each in results], asked)))
    if long := _LONG.search(own(asked)):
        return Answer(" ".join(f"word{i}" for i in range(int(long.group(1)))))
    if wanted := _LETTER.search(own(asked)):
        return Answer(letter(int(wanted.group(1))))
    data = [message for message in messages[asked_at + 1 :] if _is_data(message)]
    if _RECALL.search(asked) and (known := _recalled(asked, [*messages[:asked_at], *data])):
        return Answer(f"You told me: {known}")
    return Answer(_plain_answer(messages, asked))


def _unmarked(text: str) -> str:
    """Remove markers, except those in quotation marks."""
    return _MARKER.sub(lambda found: found.group(1) or "", text)


def _asked(messages: Sequence[Mapping[str, Any]], said_at: int) -> int:
    """Return the index of the request, which precedes the notes on tool results."""
    while said_at > 0 and _is_note(messages, said_at):
        said_at = newest_said(messages[:said_at])
    return said_at


def newest_said(messages: Sequence[Mapping[str, Any]]) -> int:
    """Return the index of the newest user message that is not only data; -1 if there is none."""
    return next((i for i in range(len(messages) - 1, -1, -1) if _is_said(messages[i])), -1)


def _is_said(message: Mapping[str, Any]) -> bool:
    return message["role"] == "user" and not _is_data(message)


def _is_data(message: Mapping[str, Any]) -> bool:
    return bool(_DATA.fullmatch(text_of(message)))


def _is_note(messages: Sequence[Mapping[str, Any]], at: int) -> bool:
    before = next((message["role"] for message in reversed(messages[:at]) if message["role"] != "user"), "")
    return before == "tool" and bool(_NOTE.match(text_of(messages[at])))


def _notes(messages: Sequence[Mapping[str, Any]]) -> int:
    """Return the number of notes at the end."""
    count = 0
    while count < len(messages) and _is_note(messages, len(messages) - 1 - count):
        count += 1
    return count


def _steps(asked: str, tools: Sequence[Mapping[str, Any]], *, noted: bool) -> list[PlannedCall]:
    steps = plan(_unmarked(asked), tools)
    again = _AGAIN.search(own(asked))
    if again is None or not steps or (noted and not again.group(2)):
        return steps
    return steps[:1] * int(again.group(1)) + steps[1:]


def _answering(
    result: Mapping[str, Any], messages: Sequence[Mapping[str, Any]], tools: Sequence[Mapping[str, Any]]
) -> PlannedCall | None:
    """Answer a tool that asks a question, with the user's sentence that matches the question best."""
    asked = _ASKS_BACK.search(text_of(result))
    known = _recalled(text_of(result), messages, but=lambda sentence: bool(plan(sentence, tools))) if asked else None
    if asked is None or known is None:
        return None
    name = next(call["function"]["name"] for call in _calls(messages) if call["id"] == result["tool_call_id"])
    return PlannedCall(name, {asked["message"]: known, asked["place"]: asked["value"]})


def _answered(results: Sequence[Mapping[str, Any]], messages: Sequence[Mapping[str, Any]]) -> int:
    """Return how many questions of tools were answered by a call. Such calls are not steps of the plan."""
    asked = [found["value"] for result in results if (found := _ASKS_BACK.search(text_of(result)))]
    return sum(any(value in call["function"]["arguments"] for call in _calls(messages)) for value in asked)


def _calls(messages: Sequence[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    return (call for message in messages for call in message.get("tool_calls") or ())


def text_of(message: Mapping[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, str):
        return content
    return "".join(part.get("text", "") for part in content or () if isinstance(part, Mapping))


def _plain(text: str) -> str:
    return re.sub(r"\s+", " ", _FENCE.sub("", text)).strip()[:1500]


def _plain_answer(messages: Sequence[Mapping[str, Any]], asked: str) -> str:
    system = next((text_of(message) for message in messages if message["role"] in {"system", "developer"}), "")
    if known := _instructed(system, asked):
        greeting = _GREETING.match(asked)
        return f"{greeting.group(1)}! {known}" if greeting else known
    role = (sentences(system) or ["I have no instructions."])[0]
    return f"My instructions begin: {role} I read your message: {_plain(_unmarked(asked))[:300]}"


def _instructed(system: str, asked: str) -> str | None:
    """Return the sentence of the instructions that shares the most words with a question; at least two are required."""
    if not _QUESTION.search(asked):
        return None
    wanted = words(asked)
    best = max(sentences(system), key=lambda sentence: len(wanted & words(sentence)), default="")
    return best if len(wanted & words(best)) >= _ENOUGH else None


def _findings(results: Sequence[str], asked: str) -> list[str]:
    """Return the text of each result. Of a skill among other results, return only the line that fits them best."""
    documents = [text for text in results if _DOCUMENT.match(_FENCE.sub("", text))]
    others = [text for text in results if text not in documents]
    if not others:
        return [_plain(text) for text in results]
    wanted = words(" ".join([asked, *others]))
    return [*map(_plain, others), *(_quoted(text, wanted) for text in documents)]


def _quoted(document: str, wanted: set[str]) -> str:
    _, _, body = _FENCE.sub("", document).strip().removeprefix("---").partition("\n---")
    title, *rules = [line.lstrip("#- ") for line in body.splitlines() if line.strip()] or [""]
    best = max(rules, key=lambda line: len(wanted & words(line)), default="")
    return f"{title}: {best}" if best else _plain(document)


def _recalled(
    asked: str, earlier: Sequence[Mapping[str, Any]], *, but: Callable[[str], bool] = lambda _: False
) -> str | None:
    """Return the user's or a summary's sentence with the most words of the question. The newest wins a tie."""
    wanted = words(asked)
    best: tuple[int, str] = (1, "")
    for message in earlier:
        if message["role"] != "user":
            continue
        for sentence in sentences(_FENCE.sub("\n", text_of(message))):
            shared = len(wanted & words(sentence))
            if shared >= best[0] and not sentence.endswith("?") and not but(sentence):
                best = (shared, sentence)
    return best[1].removeprefix("- ") or None


def _summary(messages: Sequence[Mapping[str, Any]]) -> str:
    """Return the beginning of each line that a user wrote, including lines of an earlier summary."""
    lines: list[str] = []
    for message in messages:
        if message["role"] != "user":
            continue
        for line in _FENCE.sub("\n", text_of(message)).splitlines():
            short = _unmarked(line).strip().removeprefix("- ")[:_EXTRACT]
            if short and f"- {short}" not in lines:
                lines.append(f"- {short}")
    return "Facts:\n" + "\n".join(lines) if lines else ""
