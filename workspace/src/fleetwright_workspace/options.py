"""Options of the programs of this package. `argparse` would cost memory in processes that run all the time."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence


def parse_options(
    arguments: Sequence[str], required: Sequence[str], optional: Mapping[str, str], *, repeated: Sequence[str] = ()
) -> dict[str, list[str]]:
    """Return the values of `--name value` options by name. An unknown or missing option ends the program with 2."""
    found: dict[str, list[str]] = {name: [] for name in (*required, *optional, *repeated)}
    words = iter(arguments)
    for word in words:
        name, equals, value = word.partition("=")
        if not name.startswith("--") or name[2:] not in found:
            sys.exit(_usage(f"{word[:100]}: unknown option", required, optional, repeated))
        given = value if equals else next(words, None)
        if given is None:
            sys.exit(_usage(f"{name}: give a value", required, optional, repeated))
        if found[name[2:]] and name[2:] not in repeated:
            sys.exit(_usage(f"{name}: given twice", required, optional, repeated))
        found[name[2:]].append(given)
    for name in required:
        if not found[name]:
            sys.exit(_usage(f"--{name}: required", required, optional, repeated))
    for name, default in optional.items():
        found[name] = found[name] or [default]
    return found


def _usage(error: str, required: Sequence[str], optional: Mapping[str, str], repeated: Sequence[str]) -> int:
    words = [f"--{name} VALUE" for name in required]
    words += [f"[--{name} {default or 'VALUE'}]" for name, default in optional.items()]
    words += [f"[--{name} VALUE …]" for name in repeated]
    sys.stderr.write(f"{error}\noptions: {' '.join(words)}\n")
    return 2
