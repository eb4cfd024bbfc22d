"""The commands that only read files or print facts, with the options that keep them so."""

from collections.abc import Mapping
from typing import Final

from fleetwright_agent.tools.workspace.shell.options import Operands, OptionRule

_GREP: Final = OptionRule(
    short="nrilLcwxvEFGPohHsqIaUzZT",
    short_values="eABCm",
    long=frozenset(
        {
            *("line-number", "recursive", "ignore-case", "no-ignore-case", "files-with-matches", "files-without-match"),
            *("count", "word-regexp", "line-regexp", "invert-match", "extended-regexp", "fixed-strings"),
            *("basic-regexp", "perl-regexp", "only-matching", "no-filename", "with-filename", "no-messages", "quiet"),
            *("silent", "text", "null", "null-data", "initial-tab", "line-buffered"),
        }
    ),
    long_values=frozenset(
        {
            *("regexp", "after-context", "before-context", "context", "max-count", "include", "exclude"),
            *("exclude-dir", "binary-files", "label"),
        }
    ),
    long_optional=frozenset({"color", "colour"}),
    patterns=frozenset({"e", "regexp"}),
    operands=Operands.PATTERN_AND_PATHS,
    numbers=True,
)
_RG: Final = OptionRule(
    short="nNilcwxvSsFoUHIh.uaPp0",
    short_values="egtTABCmMd",
    long=frozenset(
        {
            *("line-number", "no-line-number", "ignore-case", "case-sensitive", "smart-case", "files-with-matches"),
            *("files-without-match", "count", "count-matches", "word-regexp", "line-regexp", "invert-match"),
            *("fixed-strings", "only-matching", "multiline", "multiline-dotall", "with-filename", "no-filename"),
            *("hidden", "no-hidden", "files", "no-ignore", "no-ignore-vcs", "no-heading", "heading", "json", "stats"),
            *("vimgrep", "column", "no-column", "trim", "text", "null", "pcre2", "pretty", "unrestricted", "quiet"),
            *("type-list", "passthru", "no-messages", "no-config", "debug"),
        }
    ),
    long_values=frozenset(
        {
            *("regexp", "glob", "iglob", "type", "type-not", "after-context", "before-context", "context"),
            *("max-count", "max-columns", "max-depth", "max-filesize", "color", "sort", "sortr", "threads", "replace"),
        }
    ),
    patterns=frozenset({"e", "regexp", "files", "type-list"}),
    operands=Operands.PATTERN_AND_PATHS,
)
_SORT: Final = OptionRule(
    short="nrufhVbdgMscCiRz",
    short_values="kt",
    long=frozenset(
        {
            *("numeric-sort", "reverse", "unique", "ignore-case", "human-numeric-sort", "version-sort", "stable"),
            *("ignore-leading-blanks", "dictionary-order", "general-numeric-sort", "month-sort", "zero-terminated"),
        }
    ),
    long_values=frozenset({"key", "field-separator"}),
    long_optional=frozenset({"check"}),
)
_LS: Final = OptionRule(
    short="laAhRtrS1dFisngoGpmxCUXcuBkQqNbZ",
    short_values="Iw",
    long=frozenset(
        {
            *("all", "almost-all", "human-readable", "recursive", "reverse", "directory", "classify", "inode", "size"),
            *("group-directories-first", "full-time", "no-group", "numeric-uid-gid", "si", "escape", "literal"),
        }
    ),
    long_values=frozenset(
        {"ignore", "hide", "sort", "time", "time-style", "format", "width", "block-size", "indicator-style"}
    ),
    long_optional=frozenset({"color"}),
)
_DIFF: Final = OptionRule(
    short="uqrNwbBisaypEZtT",
    short_values="UWx",
    long=frozenset(
        {
            *(
                "brief",
                "unified",
                "recursive",
                "new-file",
                "ignore-all-space",
                "ignore-space-change",
                "ignore-blank-lines",
            ),
            *("ignore-case", "report-identical-files", "text", "side-by-side", "show-c-function", "minimal"),
            *("suppress-common-lines", "no-dereference"),
        }
    ),
    long_values=frozenset({"width", "label", "exclude"}),
    most=2,
)
_HEAD: Final = OptionRule(
    short="qvz",
    short_values="nc",
    long=frozenset({"quiet", "silent", "verbose", "zero-terminated"}),
    long_values=frozenset({"lines", "bytes"}),
    numbers=True,
)
_DU: Final = OptionRule(
    short="hsackmbSx0",
    short_values="d",
    long=frozenset({"human-readable", "summarize", "all", "total", "bytes", "apparent-size", "separate-dirs"}),
    long_values=frozenset({"max-depth", "exclude"}),
)
_SUMS: Final = OptionRule(short="btz", long=frozenset({"binary", "text", "tag", "zero"}))
_NOTHING: Final = OptionRule(most=0)
_VERSION: Final = OptionRule(long=frozenset({"version"}), most=0)

READERS: Final[Mapping[str, OptionRule]] = {
    "cat": OptionRule(short="nAbEsTvetu", long=frozenset({"number", "show-all", "number-nonblank", "squeeze-blank"})),
    "head": _HEAD,
    "tail": _HEAD,
    "grep": _GREP,
    "egrep": _GREP,
    "fgrep": _GREP,
    "rg": _RG,
    "sort": _SORT,
    # A second operand of uniq is a file that it writes.
    "uniq": OptionRule(
        short="cdDuiz",
        short_values="fsw",
        long=frozenset({"count", "repeated", "unique", "ignore-case", "zero-terminated"}),
        long_values=frozenset({"skip-fields", "skip-chars", "check-chars"}),
        most=1,
    ),
    "cut": OptionRule(
        short="snz",
        short_values="dfcb",
        long=frozenset({"only-delimited", "complement", "zero-terminated"}),
        long_values=frozenset({"delimiter", "fields", "characters", "bytes", "output-delimiter"}),
    ),
    "wc": OptionRule(short="lwcmL", long=frozenset({"lines", "words", "bytes", "chars", "max-line-length"})),
    "nl": OptionRule(short="p", short_values="bfhwsnvi"),
    "tac": OptionRule(),
    "rev": OptionRule(),
    "file": OptionRule(
        short="bihkr0", long=frozenset({"brief", "mime", "mime-type", "mime-encoding", "no-dereference"})
    ),
    "ls": _LS,
    "dir": _LS,
    "stat": OptionRule(
        short="tf",
        short_values="c",
        long=frozenset({"terse", "file-system"}),
        long_values=frozenset({"format", "printf"}),
    ),
    "du": _DU,
    "df": OptionRule(short="hiTkmPla", long=frozenset({"human-readable", "inodes", "print-type", "local", "total"})),
    "diff": _DIFF,
    "cmp": OptionRule(short="lsb", short_values="n", most=2),
    "comm": OptionRule(short="123z", long=frozenset({"nocheck-order", "check-order"}), most=2),
    "md5sum": _SUMS,
    "sha1sum": _SUMS,
    "sha256sum": _SUMS,
    "sha512sum": _SUMS,
    "cksum": OptionRule(),
    "od": OptionRule(short="abcdfhilosvx", short_values="AtNj"),
    "hexdump": OptionRule(short="Cbcdovx", short_values="ns"),
    "strings": OptionRule(short="a", short_values="nt", argument_files=True),
    "readlink": OptionRule(short="femnqsvz"),
    "realpath": OptionRule(short="eLmPsqz", long=frozenset({"canonicalize-existing", "canonicalize-missing"})),
    "basename": OptionRule(short="az", short_values="s", operands=Operands.TEXT),
    "dirname": OptionRule(short="z", operands=Operands.TEXT),
    "echo": OptionRule(operands=Operands.TEXT),
    "printf": OptionRule(operands=Operands.TEXT),
    "seq": OptionRule(short="w", short_values="fs", operands=Operands.TEXT),
    "expr": OptionRule(operands=Operands.TEXT),
    "which": OptionRule(short="a", operands=Operands.TEXT),
    "uname": OptionRule(short="asnrvmpio", long=frozenset({"all", "kernel-name", "kernel-release", "machine"}), most=0),
    "id": OptionRule(short="ugnGrz", operands=Operands.TEXT, most=1),
    "true": _NOTHING,
    "false": _NOTHING,
    "pwd": OptionRule(short="LP", most=0),
    "whoami": _NOTHING,
    "groups": _NOTHING,
    "hostname": _NOTHING,
    "arch": _NOTHING,
    "nproc": OptionRule(long=frozenset({"all"}), most=0),
    "uptime": OptionRule(short="ps", most=0),
    "printenv": OptionRule(operands=Operands.TEXT),
    "env": _NOTHING,
    "free": OptionRule(short="hbkmg", most=0),
    "ps": OptionRule(short="efAalx", operands=Operands.TEXT, most=1),
    "node": OptionRule(short="v", long=frozenset({"version"}), most=0),
    "python": OptionRule(short="V", long=frozenset({"version"}), most=0),
    "python3": OptionRule(short="V", long=frozenset({"version"}), most=0),
    "gcc": _VERSION,
    "make": _VERSION,
    "ruby": _VERSION,
}
"""A command that is not listed here needs approval. `awk` can write files and run commands, so it is not listed."""
NO_OPTIONS: Final = frozenset({"echo", "printf", "expr"})
"""Commands that print their arguments, also those that look like options."""
ONLY_WITH_OPTION: Final = frozenset({"node", "python", "python3", "gcc", "make", "ruby"})
"""Commands that run a program if they get no option."""
EXTRA_ARGUMENTS: Final[Mapping[str, tuple[str, ...]]] = {"rg": ("--no-config",), "diff": ("--no-dereference",)}
"""Arguments that are added before the others.

A configuration file of ripgrep may name a program to run. In folders, diff would follow links that leave the workspace.
"""
