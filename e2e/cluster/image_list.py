"""The images that are built here, with the inputs and the names of each. This module does not build them.

A pod may name an image by its release (`docker.io/fleetwright/agent:0.1.0`), as examples do. The chart's values name it
by content (`…:0.1.0-<digest>`), so that a changed image changes the Deployment.
"""

import hashlib
from dataclasses import dataclass, field
from pathlib import Path

VERSION = "0.1.0"


@dataclass(frozen=True)
class Image:
    name: str
    containerfile: str
    """The path of the Containerfile in the checkout."""
    sources: tuple[str, ...] = ()
    """Files and folders of the checkout that the build context contains, at the same paths."""
    programs: tuple[str, ...] = ()
    """Programs of `parts` that the build context contains, at its top."""
    compiled: tuple[str, ...] = ()
    """C programs whose sources are beside the Containerfile.

    They are linked statically and placed at the top of the context.
    """
    parent: str | None = None
    """The image of this list on which this image is built."""
    base: bool = True
    """True if the image, or its parent, is built on a Python base image."""
    repository: str = field(default="localhost")

    @property
    def reference(self) -> str:
        if self.repository == "localhost":
            return f"localhost/fleetwright-{self.name}:1"
        return f"{self.repository}/{self.name}:{VERSION}"

    @property
    def inputs(self) -> tuple[str, ...]:
        """Return every file and folder of the checkout that determines the content."""
        beside = self.containerfile.rpartition("/")[0]
        return (self.containerfile, *self.sources, *(f"{beside}/{name}.c" for name in self.compiled))

    def pinned(self, digest: str) -> str:
        return f"{self.reference}-{digest}"


PUBLISHED = "docker.io/fleetwright"
_BUILD = "locks/build.txt"


def _libraries(*names: str) -> tuple[str, ...]:
    return tuple(f"libs/{name}/{part}" for name in names for part in ("pyproject.toml", "src"))


AGENT = Image(
    name="agent",
    containerfile="agent_image/Containerfile",
    sources=(
        *_libraries("a2a"),
        "workspace/pyproject.toml",
        "workspace/src",
        "agent_image/pyproject.toml",
        "agent_image/src",
        "locks/agent.txt",
        _BUILD,
    ),
    repository=PUBLISHED,
)
OPERATOR = Image(
    name="operator",
    containerfile="operator/Containerfile",
    sources=(*_libraries("api", "kube"), "operator/pyproject.toml", "operator/src", "locks/operator.txt", _BUILD),
    repository=PUBLISHED,
)
GATEWAY = Image(
    name="gateway",
    containerfile="gateway/Containerfile",
    sources=(*_libraries("a2a", "api", "kube"), "gateway/pyproject.toml", "gateway/src", "locks/gateway.txt", _BUILD),
    repository=PUBLISHED,
)
OFFLINE = Image(
    name="offline",
    containerfile="cli/Containerfile",
    sources=(
        "cli/pyproject.toml",
        "cli/src",
        "crds",
        "charts/fleetwright/values.yaml",
        *_libraries("api", "kube"),
        "operator/pyproject.toml",
        "operator/src",
        "gateway/pyproject.toml",
        "gateway/src",
        "locks/offline.txt",
        _BUILD,
    ),
    parent="agent",
    repository=PUBLISHED,
)
PAUSE = Image(
    name="pause",
    containerfile="e2e/cluster/containers/pause/Containerfile",
    compiled=("pause",),
    base=False,
)
COREDNS = Image(
    name="coredns", containerfile="e2e/cluster/containers/coredns/Containerfile", programs=("coredns",), base=False
)
PROMETHEUS = Image(
    name="prometheus",
    containerfile="e2e/cluster/containers/prometheus/Containerfile",
    programs=("prometheus", "promtool"),
)
REGISTRY = Image(
    name="registry",
    containerfile="e2e/cluster/containers/registry/Containerfile",
    sources=("e2e/cluster/containers/registry/config.yml",),
    programs=("docker-registry",),
)
STDIO_SERVER = Image(
    name="stdio-server",
    containerfile="examples/stdio-server/Containerfile",
    sources=("examples/stdio-server/requirements.txt",),
    parent="agent",
)
NODE_TOOLCHAIN = Image(name="node-toolchain", containerfile="e2e/cluster/containers/node-toolchain/Containerfile")
GO_TOOLCHAIN = Image(name="go-toolchain", containerfile="e2e/cluster/containers/go-toolchain/Containerfile")
PRODUCT = (AGENT, OPERATOR, GATEWAY, OFFLINE)
TOOLCHAINS = (NODE_TOOLCHAIN, GO_TOOLCHAIN)
IMAGES = {image.name: image for image in (PAUSE, COREDNS, *PRODUCT, STDIO_SERVER, PROMETHEUS, REGISTRY, *TOOLCHAINS)}


def files(root: Path, sources: tuple[str, ...]) -> list[Path]:
    """Return every file of the build context, relative to the checkout, in a fixed order.

    Compiled files are not sources.
    """
    found: set[Path] = set()
    for source in sources:
        path = root / source
        members = path.rglob("*") if path.is_dir() else [path]
        found |= {member.relative_to(root) for member in members if member.is_file() or member.is_symlink()}
    return sorted(path for path in found if "__pycache__" not in path.parts and path.suffix != ".pyc")


def digest(root: Path, image: Image, *, inputs: tuple[str, ...]) -> str:
    """Return a digest of everything that decides the content: the bytes of the sources, and the strings of `inputs`."""
    summary = hashlib.sha256()
    for word in inputs:
        summary.update(f"{word}\0".encode())
    for path in files(root, image.inputs):
        file = root / path
        content = str(file.readlink()).encode() if file.is_symlink() else file.read_bytes()
        summary.update(f"{path}\0{file.lstat().st_mode & 0o111}\0{len(content)}\0".encode() + content)
    return summary.hexdigest()[:12]
