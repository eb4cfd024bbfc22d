"""Which objects `kubectl get` selects, for a program in its place. It imports little, because each call starts anew."""

from itertools import pairwise
from typing import Any


def is_selected(item: dict[str, Any], words: list[str]) -> bool:
    """Return whether the options of `kubectl get` select an object. Fields that it lacks always match."""
    metadata = item.get("metadata") or {}
    options = dict(pairwise(words))
    namespace, labels = metadata.get("namespace"), metadata.get("labels")
    is_limited = namespace is not None and "--namespace" in options and "--all-namespaces" not in words
    if is_limited and namespace != options["--namespace"]:
        return False
    return labels is None or "-l" not in options or matches_labels(options["-l"], labels)


def matches_labels(selector: str, labels: dict[str, str]) -> bool:
    """Return whether a label selector such as `a=1,b!=2` selects these labels."""
    for requirement in selector.split(","):
        key, value = requirement.split("=")
        is_wanted = not key.endswith("!")
        if (labels.get(key.removesuffix("!")) == value) is not is_wanted:
            return False
    return True
