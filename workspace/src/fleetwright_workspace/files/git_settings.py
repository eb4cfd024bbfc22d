"""Reduces the configuration of a git repository to settings that name no program and no other file. Pure.

Git runs programs that a configuration names (`core.fsmonitor`, `core.hooksPath`, filters, aliases, …), and new versions
of git add such settings. So this module keeps known harmless settings, and drops the others. It understands only the
simple lines that git itself writes, and writes the kept ones anew. So it cannot read a line otherwise than git does.
"""

from __future__ import annotations

import re

# Each section with its keys; all in lower case. A subsection, such as the name of a branch, is kept.
_HARMLESS = {
    "core": {
        "repositoryformatversion", "filemode", "bare", "logallrefupdates", "ignorecase", "precomposeunicode",
        "symlinks", "autocrlf", "eol", "safecrlf", "quotepath", "abbrev", "compression",
    },
    "extensions": {"objectformat"},
    "user": {"name", "email"},
    "author": {"name", "email"},
    "committer": {"name", "email"},
    "init": {"defaultbranch"},
    "remote": {"url", "fetch", "tagopt", "prune"},
    "branch": {"remote", "merge", "rebase", "description"},
    "submodule": {"url", "active", "branch"},
    "pull": {"rebase", "ff"},
    "push": {"default", "autosetupremote"},
    "merge": {"ff", "conflictstyle"},
    "advice": {"detachedhead", "skippedcherrypicks"},
}  # fmt: skip
_HEADER = re.compile(r'\[(?P<section>[A-Za-z0-9-]+)(?: "(?P<subsection>[^"\\\x00-\x1f]*)")?\]')
_SETTING = re.compile(r"(?P<key>[A-Za-z][A-Za-z0-9-]*)[ \t]*=[ \t]*(?P<value>[^\"\\#;\x00-\x1f\x7f]*)")
_BLANK = re.compile(r"[ \t]*(?:[#;].*)?")


def keep_harmless_settings(text: str) -> str:
    """Return the configuration with its harmless settings; the same text if it has no others."""
    kept: list[str] = []
    dropped = False
    section = ""
    for line in text.split("\n"):
        bare = line.rstrip("\r").strip(" \t")
        header, setting = _HEADER.fullmatch(bare), _SETTING.fullmatch(bare)
        if header is not None:
            section = header["section"].lower()
            kept.append(bare)
        elif setting is not None and setting["key"].lower() in _HARMLESS.get(section, ()):
            kept.append(f"\t{setting['key']} = {setting['value'].rstrip()}")
        elif _BLANK.fullmatch(bare) is None or bare.endswith("\\"):
            dropped = True
            # The settings after a header that this module does not understand belong to an unknown section.
            section = "" if bare.startswith("[") else section
    return "\n".join([*kept, ""]) if dropped else text
