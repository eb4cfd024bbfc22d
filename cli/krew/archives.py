"""Builds the krew archives of `kubectl fleetwright`, for `make krew-archives`.

An archive is for one platform. It holds the program `kubectl-fleetwright`, which needs python3 on the machine, and the
folder `lib` with everything else: `lib/common` for all versions of Python, `lib/cp311` and so on for compiled packages.
The packages come from wheels of `locks/kubectl.txt`, whose hashes are checked. Equal input gives equal bytes.
"""

import argparse
import gzip
import hashlib
import io
import os
import re
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
PROGRAM: Final = "kubectl-fleetwright"
PLATFORMS: Final = {
    "linux-amd64": "x86_64-manylinux_2_28",
    "linux-arm64": "aarch64-manylinux_2_28",
    "darwin-amd64": "x86_64-apple-darwin",
    "darwin-arm64": "aarch64-apple-darwin",
}
"""The platforms with the name that uv gives them. The commands need a Unix terminal, so there is none for Windows."""
PYTHONS: Final = ("3.11", "3.12", "3.13", "3.14")
_LOCK: Final = ROOT / "locks/kubectl.txt"
_SOURCES: Final = ("cli/src/fleetwright_cli", "libs/a2a/src/fleetwright_a2a", "libs/api/src/fleetwright_api")
_VERSION: Final = re.compile(r"v\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?", re.ASCII)
_LEFT_OUT: Final = re.compile(
    r"(^|/)(__pycache__|[^/]+\.dist-info/(RECORD|INSTALLER|REQUESTED|uv_.*))(/|$)|^bin/|^kubernetes/aio/"
)
"""Files that installers write, scripts with the path of an interpreter, and a large client that no command uses."""


class UnbuildableArchive(ValueError):  # noqa: N818 - says what the archive is
    """The version is malformed, or a package has no wheel. The message names it."""


def build(version: str, platform: str, into: Path, *, pythons: Sequence[str] = PYTHONS) -> Path:
    """Return the path of the archive.

    Args:
        version: Such as v1.2.3.
        pythons: The versions of Python that the archive supports.

    Raises: UnbuildableArchive.
    """
    if not _VERSION.fullmatch(version):
        raise UnbuildableArchive(f"VERSION: {version!r} must be a version such as v1.2.3")
    with tempfile.TemporaryDirectory() as folder:
        files = {name: path.read_bytes() for name, path in _packages(platform, pythons, Path(folder))}
    files |= {f"lib/common/{name}": path.read_bytes() for name, path in _own_packages()}
    metadata = f"Metadata-Version: 2.1\nName: fleetwright\nVersion: {version.removeprefix('v')}\n"
    files[f"lib/common/fleetwright-{version.removeprefix('v')}.dist-info/METADATA"] = metadata.encode()
    files[PROGRAM] = (ROOT / "cli/krew" / PROGRAM).read_bytes()
    files["LICENSE"] = (ROOT / "LICENSE").read_bytes()
    into.mkdir(parents=True, exist_ok=True)
    path = into / f"{PROGRAM}-{platform}.tar.gz"
    path.write_bytes(compressed(files))
    return path


def _packages(platform: str, pythons: Sequence[str], folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield the files of all wheels. A package with compiled modules may differ between versions of Python."""
    common: dict[str, Path] = {}
    for python in pythons:
        target = folder / python
        _install(platform, python, target)
        own = f"cp{python.replace('.', '')}"
        yield f"lib/{own}/.keep", _empty(folder)
        compiled = {name for info in target.glob("*.dist-info") if _is_compiled(info) for name in _files_of(info)}
        for name, path in _walk(target):
            if name in compiled:
                yield f"lib/{own}/{name}", path
            elif name not in common:
                common[name] = path
                yield f"lib/common/{name}", path
            elif common[name].read_bytes() != path.read_bytes():
                raise UnbuildableArchive(f"{name} differs between Python {pythons[0]} and {python}")


def _install(platform: str, python: str, target: Path) -> None:
    options = ["--only-binary=:all:", "--require-hashes", "--no-deps", f"--requirements={_LOCK}"]
    command = [_uv(), "pip", "install", "--quiet", f"--python-platform={PLATFORMS[platform]}", *options]
    done = subprocess.run(  # noqa: S603 - runs the pinned uv
        [*command, f"--python-version={python}", f"--target={target}"], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise UnbuildableArchive(f"{platform}, Python {python}: {done.stderr.strip()[-500:]}")


def _uv() -> str:
    """Return the path of the pinned uv, which `locks/sync` has installed."""
    digest = hashlib.sha256((ROOT / "locks/uv.txt").read_bytes()).hexdigest()[:12]
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    found = cache / "fleetwright" / f"uv-{digest}" / "bin/uv"
    if not found.exists():
        raise UnbuildableArchive("uv is missing; run make env")
    return str(found)


def _is_compiled(info: Path) -> bool:
    """Return whether the wheel is for one version of Python only."""
    tags = [line.removeprefix("Tag: ") for line in (info / "WHEEL").read_text().splitlines() if line.startswith("Tag:")]
    return not all(tag.split("-")[1] in ("none", "abi3") for tag in tags)


def _files_of(info: Path) -> set[str]:
    """Return the files of a wheel, relative to the folder in which it is installed."""
    return {line.split(",")[0].strip('"') for line in (info / "RECORD").read_text().splitlines()}


def _own_packages() -> Iterator[tuple[str, Path]]:
    for source in _SOURCES:
        package = ROOT / source
        yield from ((f"{package.name}/{name}", path) for name, path in _walk(package))


def _walk(folder: Path) -> Iterator[tuple[str, Path]]:
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_file() and not _LEFT_OUT.search(name):
            yield name, path


def _empty(folder: Path) -> Path:
    path = folder / "empty"
    path.touch()
    return path


def compressed(files: Mapping[str, bytes]) -> bytes:
    """Return a tar.gz with sorted members, and without times and owners."""
    packed = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=packed, mode="wb", filename="", mtime=0, compresslevel=6) as zipped,
        tarfile.open(fileobj=zipped, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for name in sorted(files):
            member = tarfile.TarInfo(name)
            member.size = len(files[name])
            member.mode = 0o755 if name == PROGRAM else 0o644
            archive.addfile(member, io.BytesIO(files[name]))
    return packed.getvalue()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--version", required=True, metavar="v1.2.3")
    parser.add_argument("--output", required=True, type=Path, help="folder for the archives")
    parser.add_argument("--python", action="append", choices=PYTHONS, help="a version to support; all by default")
    parser.add_argument("platforms", nargs="*", metavar="OS-ARCH", help=f"all by default: {', '.join(PLATFORMS)}")
    given = parser.parse_args()
    if unknown := [each for each in given.platforms if each not in PLATFORMS]:
        sys.exit(f"krew-archives: PLATFORMS: {unknown[0]!r} must be one of {', '.join(PLATFORMS)}")
    try:
        for platform in given.platforms or PLATFORMS:
            path = build(given.version, platform, given.output, pythons=given.python or PYTHONS)
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            sys.stdout.write(f"written: {path} ({path.stat().st_size >> 20} MiB, sha256 {digest})\n")
    except UnbuildableArchive as error:
        sys.exit(f"krew-archives: {error}")


if __name__ == "__main__":
    main()
