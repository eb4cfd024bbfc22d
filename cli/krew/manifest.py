"""Writes the krew manifest of `kubectl fleetwright` from the archives of a release, for `make krew`.

An archive holds the program for one platform, and is named `kubectl-fleetwright-OS-ARCH.tar.gz`. `make krew-archives`
builds such archives. krew installs only what the manifest names, so each archive is checked for the program and the
license. The folder `lib` of an archive is installed too.
"""

import argparse
import hashlib
import re
import sys
import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import yaml

NAME: Final = "fleetwright"
_PROGRAM: Final = "kubectl-fleetwright"
_LICENSE: Final = "LICENSE"
_LIBRARY: Final = "lib"
_ARCHIVE: Final = re.compile(r"kubectl-fleetwright-(?P<os>linux|darwin|windows)-(?P<arch>amd64|arm64)\.tar\.gz")
_VERSION: Final = re.compile(r"v\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?", re.ASCII)
_ABOUT: Final = "Talk to, inspect and manage A2A agents"
_DESCRIPTION: Final = """\
Fleetwright runs fleets of A2A agents as Kubernetes objects. This plugin
talks to an agent in the terminal or in scripts, decides tool calls that
wait for a person, and explains what an agent may reach and why. It lists
tasks with their cost, follows the log lines of a task across agents, and
manages memory, learned skills and tokens.
"""
_CAVEATS: Final = """\
The plugin needs python3 of version 3.11 to 3.14 on this machine. The chart
of Fleetwright must be installed in the cluster.
For completion, put a link named kubectl_complete-fleetwright to the
program kubectl-fleetwright into a folder of your PATH.
"""


class InvalidRelease(ValueError):  # noqa: N818 - names what the release lacks
    """The version, the address or an archive is not as krew needs it. The message names it."""


def krew_manifest(version: str, url: str, homepage: str, archives: Sequence[Path]) -> dict[str, Any]:
    """Return the manifest.

    Args:
        url: The address of the folder with the archives.
        homepage: The address of the project.

    Raises: InvalidRelease.
    """
    if not _VERSION.fullmatch(version):
        raise InvalidRelease(f"VERSION: {version!r} must be a version such as v1.2.3")
    for name, address in (("URL", url), ("HOMEPAGE", homepage)):
        if not address.startswith("https://"):
            raise InvalidRelease(f"{name}: {address!r} must begin with https://")
    if not archives:
        raise InvalidRelease("ARCHIVES: name at least one archive")
    platforms = [_platform(archive, url.rstrip("/")) for archive in sorted(archives, key=lambda each: each.name)]
    labels = [tuple(each["selector"]["matchLabels"].values()) for each in platforms]
    if double := next((each for each in labels if labels.count(each) > 1), None):
        raise InvalidRelease(f"ARCHIVES: two archives are for {'/'.join(double)}")
    return {
        "apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
        "kind": "Plugin",
        "metadata": {"name": NAME},
        "spec": {
            "version": version,
            "homepage": homepage,
            "shortDescription": _ABOUT,
            "description": _DESCRIPTION,
            "caveats": _CAVEATS,
            "platforms": platforms,
        },
    }


def _platform(archive: Path, url: str) -> dict[str, Any]:
    named = _ARCHIVE.fullmatch(archive.name)
    if named is None:
        raise InvalidRelease(f"{archive.name}: must be named kubectl-fleetwright-OS-ARCH.tar.gz")
    program = f"{_PROGRAM}.exe" if named["os"] == "windows" else _PROGRAM
    try:
        with tarfile.open(archive) as opened:
            files = {member.name.removeprefix("./") for member in opened.getmembers() if member.isfile()}
        digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    except (OSError, tarfile.TarError) as error:
        raise InvalidRelease(f"{archive.name}: cannot be read: {error}") from None
    folders = [_LIBRARY] if any(name.startswith(f"{_LIBRARY}/") for name in files) else []
    if missing := sorted({program, _LICENSE} - files):
        raise InvalidRelease(f"{archive.name}: has no file {missing[0]} in its top folder")
    return {
        "selector": {"matchLabels": {"os": named["os"], "arch": named["arch"]}},
        "uri": f"{url}/{archive.name}",
        "sha256": digest,
        "files": [{"from": name, "to": "."} for name in (program, _LICENSE, *folders)],
        "bin": program,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--version", required=True, metavar="v1.2.3")
    parser.add_argument("--url", required=True, help="address of the folder with the archives")
    parser.add_argument("--homepage", required=True)
    parser.add_argument("--output", required=True, type=Path, help=f"folder for {NAME}.yaml")
    parser.add_argument("archives", nargs="*", type=Path)
    given = parser.parse_args()
    try:
        manifest = krew_manifest(given.version, given.url, given.homepage, given.archives)
    except InvalidRelease as error:
        sys.exit(f"krew: {error}")
    given.output.mkdir(parents=True, exist_ok=True)
    # krew requires that the file has the name of the plugin.
    path = given.output / f"{NAME}.yaml"
    path.write_text(yaml.safe_dump(manifest, sort_keys=False, width=100))
    sys.stdout.write(f"written: {path}\n")


if __name__ == "__main__":
    main()
