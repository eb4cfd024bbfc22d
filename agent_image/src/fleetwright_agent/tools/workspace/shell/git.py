"""Decides whether a git command only reads, and adds the arguments that disable everything a repository can run. Pure.

A hostile repository can name programs in its configuration: hooks, a file system monitor, a pager, external diffs, text
conversions, filters, a signature checker and transports. Fixed arguments and variables disable all of them except
filters, because git has no option for that. A command that may run filters therefore runs only after a check that the
configuration has none.
"""

import posixpath
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from fleetwright_agent.tools.workspace.shell.options import ApprovalRequired, OptionRule, parse

ENVIRONMENT: Final[Mapping[str, str]] = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_PAGER": "cat",
    "PAGER": "cat",
    "GIT_EDITOR": "false",
    "GIT_ASKPASS": "false",
    "GIT_SSH_COMMAND": "false",
}
_SETTINGS: Final = (
    *("core.fsmonitor=false", "core.hooksPath=/dev/null", "core.pager=cat", "core.untrackedCache=false"),
    *("core.sshCommand=false", "core.askPass=false", "core.editor=false", "core.preloadIndex=false"),
    *("diff.external=", "diff.autoRefreshIndex=false", "submodule.recurse=false", "status.submoduleSummary=false"),
    *("log.showSignature=false", "gpg.program=false", "gpg.openpgp.program=false", "gpg.ssh.program=false"),
    *("gpg.x509.program=false", "maintenance.auto=false", "gc.auto=0", "feature.manyFiles=false"),
    # A folder of the repository may itself look like a repository, with its own configuration.
    "safe.bareRepository=explicit",
)
_PREFIX: Final = ("git", "--no-pager", "--no-optional-locks", *(part for each in _SETTINGS for part in ("-c", each)))
_FORBIDDEN: Final = ("--output", "--ext-diff", "--textconv", "--open-files-in-pager", "--no-index")
"""Options that write a file, run a program or read outside of the repository. No argument may abbreviate one."""
_FILTER_KEYS: Final = (".clean", ".smudge", ".process")
_NO_DRIVERS: Final = ("--no-ext-diff", "--no-textconv")

_REVISIONS: Final = OptionRule(
    short="pusczwbR",
    short_values="nSG",
    short_attached="UMCB",
    long=frozenset(
        {
            *(
                "oneline",
                "graph",
                "all",
                "decorate",
                "no-decorate",
                "patch",
                "no-patch",
                "stat",
                "shortstat",
                "numstat",
            ),
            *("name-only", "name-status", "summary", "raw", "cached", "staged", "merge-base", "reverse", "merges"),
            *("no-merges", "first-parent", "follow", "full-history", "topo-order", "date-order", "author-date-order"),
            *("branches", "tags", "remotes", "abbrev-commit", "no-abbrev-commit", "no-color", "word-diff", "minimal"),
            *("patience", "histogram", "ignore-all-space", "ignore-space-change", "ignore-space-at-eol"),
            *("ignore-blank-lines", "exit-code", "quiet", "relative", "no-renames", "find-renames", "full-index"),
            *(
                "left-right",
                "cherry-pick",
                "cherry-mark",
                "count",
                "no-ext-diff",
                "no-textconv",
                "no-prefix",
                "compact-summary",
            ),
            *("pickaxe-all", "pickaxe-regex", "regexp-ignore-case", "all-match", "invert-grep", "fixed-strings"),
            *("extended-regexp", "perl-regexp", "walk-reflogs", "no-walk", "boundary", "parents", "children", "check"),
        }
    ),
    long_values=frozenset({"max-count", "skip", "since", "after", "until", "before", "author", "committer", "grep"}),
    long_optional=frozenset(
        {
            *("pretty", "abbrev", "color", "unified", "decorate", "stat", "dirstat"),
            *(
                "word-diff",
                "color-words",
                "find-renames",
                "find-copies",
                "relative",
                "branches",
                "tags",
            ),
            "remotes",
        }
    ),
    long_equals=frozenset({"format", "date", "diff-filter", "diff-algorithm", "exclude", "glob", "decorate-refs"}),
    numbers=True,
)
_LOG: Final = replace(_REVISIONS, short_values="nSGL")
_STATUS: Final = OptionRule(
    short="sbz",
    long=frozenset({"short", "branch", "show-stash", "long", "null", "ahead-behind", "no-ahead-behind", "no-renames"}),
    long_optional=frozenset({"porcelain", "ignored", "untracked-files", "column"}),
)
_BRANCH: Final = OptionRule(
    short="arvlqi",
    long=frozenset({"all", "remotes", "list", "verbose", "show-current", "no-color", "ignore-case"}),
    long_values=frozenset({"contains", "no-contains", "merged", "no-merged", "points-at", "sort"}),
    long_equals=frozenset({"format"}),
    long_optional=frozenset({"color", "column", "abbrev"}),
)
_TAG: Final = OptionRule(
    short="lni",
    long=frozenset({"list", "ignore-case"}),
    long_values=frozenset({"contains", "no-contains", "merged", "no-merged", "points-at", "sort"}),
    long_equals=frozenset({"format"}),
    long_optional=frozenset({"color", "column"}),
)
_BLAME: Final = OptionRule(
    short="lswtfnepbcr",
    short_values="L",
    short_attached="MC",
    long=frozenset({"porcelain", "line-porcelain", "show-name", "show-number", "show-email", "root", "incremental"}),
    long_equals=frozenset({"date", "since"}),
    long_optional=frozenset({"abbrev"}),
)
_REV_PARSE: Final = OptionRule(
    long=frozenset(
        {
            *("show-toplevel", "show-prefix", "show-cdup", "git-dir", "absolute-git-dir", "is-inside-work-tree"),
            *("is-bare-repository", "is-inside-git-dir", "verify", "symbolic-full-name", "all", "branches", "tags"),
            *("quiet", "git-common-dir", "is-shallow-repository"),
        }
    ),
    short="q",
    long_optional=frozenset({"short", "abbrev-ref"}),
)
_LS_FILES: Final = OptionRule(
    short="cdmoistuzkv",
    short_values="x",
    long=frozenset(
        {
            *("cached", "deleted", "modified", "others", "ignored", "stage", "unmerged", "exclude-standard"),
            *("directory", "no-empty-directory", "full-name", "error-unmatch", "deduplicate", "killed", "eol"),
        }
    ),
    long_values=frozenset({"exclude"}),
    long_optional=frozenset({"abbrev"}),
)
# Options that show patches are not listed: git would run external diffs for them.
_REFLOG: Final = OptionRule(
    short_values="n", long=frozenset({"oneline", "all"}), long_values=frozenset({"max-count"}), numbers=True
)
_GREP: Final = OptionRule(
    short="nilLcwvEFGPohHqWpIa",
    short_values="eABCm",
    long=frozenset(
        {
            *("line-number", "ignore-case", "files-with-matches", "files-without-match", "count", "word-regexp"),
            *("invert-match", "extended-regexp", "fixed-strings", "perl-regexp", "only-matching", "cached", "and"),
            *("or", "not", "all-match", "untracked", "show-function", "heading", "break", "full-name", "column"),
        }
    ),
    long_values=frozenset({"after-context", "before-context", "context", "max-count", "max-depth"}),
    long_optional=frozenset({"color"}),
)


@dataclass(frozen=True, slots=True)
class GitRule:
    options: OptionRule
    added: tuple[str, ...] = ()
    """Arguments after the name of the subcommand."""
    reads_worktree: bool = False
    """True if git compares files of the work tree, for which it may run filters."""
    lists_with: tuple[str, ...] | None = None
    """Options without which an operand is not the filter of a list, but the name of something to create."""
    first: frozenset[str] | None = None
    """The allowed first operands; an empty string allows none at all."""


GIT_RULES: Final[Mapping[str, GitRule]] = {
    "status": GitRule(_STATUS, ("--ignore-submodules=all",), reads_worktree=True),
    "diff": GitRule(_REVISIONS, (*_NO_DRIVERS, "--ignore-submodules=all", "--submodule=short"), reads_worktree=True),
    "log": GitRule(_LOG, (*_NO_DRIVERS, "--submodule=short")),
    "show": GitRule(_LOG, (*_NO_DRIVERS, "--submodule=short")),
    "shortlog": GitRule(OptionRule(short="sne", long=frozenset({"summary", "numbered", "email", "all", "no-merges"}))),
    "rev-list": GitRule(_REVISIONS),
    "blame": GitRule(_BLAME, ("--no-textconv",), reads_worktree=True),
    "branch": GitRule(_BRANCH, lists_with=("l", "list")),
    "tag": GitRule(_TAG, lists_with=("l", "list", "contains", "merged", "points-at")),
    "remote": GitRule(OptionRule(short="v", long=frozenset({"verbose"})), first=frozenset({"", "get-url"})),
    "stash": GitRule(OptionRule(most=1), first=frozenset({"list"})),
    "worktree": GitRule(OptionRule(most=1, long=frozenset({"porcelain"})), first=frozenset({"list"})),
    "reflog": GitRule(_REFLOG, first=frozenset({"", "show"})),
    "config": GitRule(
        OptionRule(
            short="lz",
            short_values="",
            long=frozenset({"list", "name-only", "show-origin", "show-scope", "local", "get", "get-all", "get-regexp"}),
        ),
        lists_with=("get", "get-all", "get-regexp"),
    ),
    "rev-parse": GitRule(_REV_PARSE),
    "describe": GitRule(
        OptionRule(
            long=frozenset({"tags", "always", "all", "long", "exact-match", "contains", "first-parent"}),
            long_values=frozenset({"match", "exclude"}),
            long_equals=frozenset({"candidates"}),
            long_optional=frozenset({"abbrev"}),
        )
    ),
    "ls-files": GitRule(_LS_FILES, reads_worktree=True),
    "ls-tree": GitRule(
        OptionRule(short="rdtlz", long=frozenset({"name-only", "name-status", "long", "full-tree", "full-name"}))
    ),
    "cat-file": GitRule(OptionRule(short="pts")),
    "grep": GitRule(_GREP, ("--no-textconv",), reads_worktree=True),
    "merge-base": GitRule(OptionRule(short="a", long=frozenset({"all", "is-ancestor", "octopus", "fork-point"}))),
    "name-rev": GitRule(OptionRule(long=frozenset({"tags", "name-only", "always"}))),
    "show-ref": GitRule(OptionRule(short="qsd", long=frozenset({"heads", "tags", "verify", "hash", "quiet"}))),
    "for-each-ref": GitRule(
        OptionRule(long_values=frozenset({"sort", "count", "contains"}), long_equals=frozenset({"format"}))
    ),
    "diff-tree": GitRule(_REVISIONS, _NO_DRIVERS),
    "version": GitRule(OptionRule(most=0)),
}


@dataclass(frozen=True, slots=True)
class GitCommand:
    argv: tuple[str, ...]
    paths: tuple[str, ...]
    check: tuple[str, ...] = ()
    """A command that lists the keys of the configuration; `unsafe_key` must find none."""


def git_command(arguments: Sequence[str]) -> GitCommand:
    """Return the command that runs. Raises: ApprovalRequired."""
    rest = list(arguments)
    folder: list[str] = []
    for argument in arguments:
        name = argument.partition("=")[0]
        if len(name) > len("--") and any(option.startswith(name) for option in _FORBIDDEN):
            raise ApprovalRequired(f"the argument {argument} of git is not one that only reads")
    while rest and rest[0].startswith("-"):
        option = rest.pop(0)
        if option == "-C" and rest and not folder and not rest[0].startswith("-"):
            folder = ["-C", rest.pop(0)]
        elif option == "--version" and not rest:
            return GitCommand((*_PREFIX, "--version"), ())
        elif option != "--no-pager":
            raise ApprovalRequired(f"the option {option} of git is not one that only reads")
    if not rest:
        raise ApprovalRequired("it has no subcommand")
    name, own = rest[0], rest[1:]
    rule = GIT_RULES.get(name)
    if rule is None:
        raise ApprovalRequired(f"git {name} is not a command that only reads")
    paths = _checked(name, rule, own)
    argv = (*_PREFIX, *folder, name, *rule.added, *own)
    root = folder[1] if folder else ""
    inside = (*folder[1:], *(posixpath.join(root, path) for path in paths))
    if not rule.reads_worktree:
        return GitCommand(argv, inside)
    check = (*_PREFIX, *folder, "config", "--includes", "--name-only", "-z", "--list")
    return GitCommand(argv, inside, check)


def unsafe_key(keys: str) -> bool:
    """Return True if a list of keys, each one before a zero character, names a filter or another work tree.

    The names of filters need not be UTF-8, so git must not search for them with a regular expression.
    """
    return any(
        key == "core.worktree" or (key.startswith("filter.") and key.endswith(_FILTER_KEYS)) for key in keys.split("\0")
    )


def _checked(name: str, rule: GitRule, arguments: Sequence[str]) -> list[str]:
    """Return the operands and separate values, which may be paths. Raises: ApprovalRequired."""
    parsed = parse(rule.options, arguments)
    operands = parsed.operands
    if any(operand.startswith("-") for operand in operands):
        raise ApprovalRequired("it has an operand that looks like an option")
    if rule.lists_with is not None and operands and not parsed.has(*rule.lists_with):
        raise ApprovalRequired(f"git {name} with a name changes the repository")
    if rule.first is not None:
        given = operands[0] if operands else ""
        if given not in rule.first or (given and "--" in arguments[: arguments.index(given)]):
            raise ApprovalRequired(f"git {name} {given} is not a command that only reads")
    if any("%G" in (value or "") for _, value in parsed.options):
        raise ApprovalRequired("it checks signatures")
    if name == "config" and not parsed.has("l", "list", "get", "get-all", "get-regexp"):
        raise ApprovalRequired("git config with a value changes the repository")
    return [*parsed.separate, *operands]
