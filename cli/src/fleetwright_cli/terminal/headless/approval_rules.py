"""The policy that decides approvals without a person: `none`, `edits`, or the rules of a file.

No policy approves everything: a rule that approves names one tool, and a rule for the shell names commands.
"""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import yaml

from fleetwright_cli.terminal.headless.patterns import matches_command, matches_path, matches_text
from fleetwright_cli.terminal.model.values import PendingAsk

NONE: Final = "none"
EDITS: Final = "edits"
_EDIT_TOOLS: Final = ("edit_file", "write_file")
_SHELL_TOOLS: Final = frozenset({"bash"})
_PATH: Final = "path"
_COMMAND: Final = "command"
_FIELDS: Final = frozenset({"tool", _PATH, _COMMAND, "arguments", "decision"})
_DECISIONS: Final = ("approve", "decline")
_LARGEST: Final = 256 * 1024


class InvalidPolicy(ValueError):  # noqa: N818 - describes the file
    """The policy is invalid. The message names the rule, the problem and the remedy."""


@dataclass(frozen=True, slots=True)
class ApprovalRule:
    tool: str
    approves: bool
    path: str | None = None
    command: str | None = None
    arguments: Mapping[str, str] = field(default_factory=dict)

    def fits(self, ask: PendingAsk) -> bool:
        """Return whether the rule decides an ask. Its conditions need the arguments of the call."""
        wide = not self.approves
        if not matches_text(self.tool, ask.tool, wide=wide):
            return False
        found = ask.arguments
        if found is None:
            # An approval must know what it approves. A rule without conditions may decline without knowing.
            return not self.approves and self.path is None and self.command is None and not self.arguments
        path, command = found.get(_PATH), found.get(_COMMAND)
        if self.path is not None and not (isinstance(path, str) and matches_path(self.path, path, wide=wide)):
            return False
        if self.command is not None and not (
            isinstance(command, str) and matches_command(self.command, command, wide=wide)
        ):
            return False
        return all(
            name in found and matches_text(wanted, found[name], wide=wide) for name, wanted in self.arguments.items()
        )


@dataclass(frozen=True, slots=True)
class ApprovalRules:
    """Rules in order. The first rule that fits decides."""

    rules: Sequence[ApprovalRule] = ()

    def decide(self, ask: PendingAsk) -> bool | None:
        """Return whether the call is approved, or None if no rule fits."""
        if not ask.is_approval or ask.reviewed:
            return None
        return next((rule.approves for rule in self.rules if rule.fits(ask)), None)


def approval_rules(value: str) -> ApprovalRules:
    """Return the policy that `--approve` names. Raises: InvalidPolicy."""
    if value == NONE:
        return ApprovalRules()
    if value == EDITS:
        # Any path within the workspace. The agent itself confines the tools to it.
        return ApprovalRules(tuple(ApprovalRule(tool, True, path="**") for tool in _EDIT_TOOLS))
    path = Path(value)
    try:
        if path.stat().st_size > _LARGEST:
            raise InvalidPolicy(f"{value}: a policy has at most {_LARGEST} bytes")
        document = yaml.safe_load(path.read_text())
    except OSError as error:
        raise InvalidPolicy(f"--approve: {value!r} is neither none, edits nor a file: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError):
        raise InvalidPolicy(f"{value}: not a YAML file") from None
    return parse_rules(document, source=value)


def parse_rules(document: Any, *, source: str) -> ApprovalRules:
    """Return the rules of a policy document. Raises: InvalidPolicy."""
    if not isinstance(document, Mapping) or document.get("version") != 1 or set(document) != {"version", "rules"}:
        raise InvalidPolicy(f"{source}: a policy has the fields `version: 1` and `rules`, and no other field")
    rules = document["rules"]
    if not isinstance(rules, list):
        raise InvalidPolicy(f"{source}: rules: must be a list")
    return ApprovalRules(tuple(_rule(each, f"{source}: rules[{index}]") for index, each in enumerate(rules)))


def _rule(value: Any, where: str) -> ApprovalRule:
    if not isinstance(value, Mapping):
        raise InvalidPolicy(f"{where}: must be an object")
    if unknown := set(map(str, value)) - _FIELDS:
        raise InvalidPolicy(f"{where}: unknown field {sorted(unknown)[0]!r}; known are {', '.join(sorted(_FIELDS))}")
    decision = value.get("decision")
    if decision not in _DECISIONS:
        raise InvalidPolicy(f"{where}.decision: must be approve or decline")
    texts = {name: value[name] for name in ("tool", _PATH, _COMMAND) if name in value}
    for name, text in texts.items():
        if not isinstance(text, str) or not text:
            raise InvalidPolicy(f"{where}.{name}: must be a text")
    if "tool" not in texts:
        raise InvalidPolicy(f"{where}.tool: is required")
    arguments = value.get("arguments", {})
    if not isinstance(arguments, Mapping) or not all(isinstance(each, str) for each in arguments.values()):
        raise InvalidPolicy(f"{where}.arguments: must be an object of texts")
    rule = ApprovalRule(texts["tool"], decision == "approve", texts.get(_PATH), texts.get(_COMMAND), dict(arguments))
    if rule.approves:
        _check_narrow(rule, where)
    return rule


def _check_narrow(rule: ApprovalRule, where: str) -> None:
    """Refuse rules that approve any call of any tool, or any command of a shell."""
    if set(rule.tool) & set("*?"):
        raise InvalidPolicy(f"{where}.tool: a rule that approves names one tool; write a rule for each tool")
    if rule.command is None and rule.tool not in _SHELL_TOOLS:
        return
    if not _names_program(rule.command or ""):
        reason = "a rule that approves commands begins with the name of a program, without wildcards"
        raise InvalidPolicy(f"{where}.command: {reason}")


def _names_program(command: str) -> bool:
    """Return whether the first word is a program. Before a wildcard, an assignment would be followed by any program."""
    try:
        first = next(iter(shlex.split(command)), "")
    except ValueError:
        return False
    return bool(first) and not set(first) & set("*?[") and not ("=" in first and set(command) & set("*?"))
