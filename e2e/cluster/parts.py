"""The programs of a cluster: their versions, their sources, and the accepted versions of installed programs.

This module does not inspect the machine. `binaries` finds programs; `go_build` and `debian` build or unpack them.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

KUBERNETES = "1.36.3"

Version = tuple[int, int, int]


@dataclass(frozen=True)
class Rule:
    """The accepted versions of an installed program that replaces our build, as a predicate and as text."""

    words: str
    accepts: Callable[[Version], bool]


@dataclass(frozen=True)
class GoTool:
    """Packages that are built from a module in this repository, whose go.sum pins every source."""

    module: str
    packages: tuple[str, ...]
    ldflags: str = ""


@dataclass(frozen=True)
class GoInstall:
    """Packages that are built from a published module without changes."""

    packages: tuple[str, ...]
    ldflags: str = ""
    gcflags: str = ""


@dataclass(frozen=True)
class Unpacked:
    """Files from a Debian package that is not installed, because installing it would start its service."""

    package: str
    files: tuple[str, ...]


@dataclass(frozen=True)
class Part:
    name: str
    version: str
    recipe: GoTool | GoInstall | Unpacked
    rule: Rule
    ask: tuple[str, ...] = ("--version",)
    also: tuple[str, ...] = ()
    """Programs that must come from the same build as this one."""

    @property
    def programs(self) -> tuple[str, ...]:
        return (self.name, *self.also)


def parse(version: str) -> Version:
    found = re.search(r"(\d+)\.(\d+)(?:\.(\d+))?", version)
    if not found:
        raise ValueError(f"no version in {version!r}")
    return int(found[1]), int(found[2]), int(found[3] or 0)


def same_minor(version: str) -> Rule:
    wanted = parse(version)[:2]
    return Rule(f"{wanted[0]}.{wanted[1]}.x", lambda found: found[:2] == wanted)


def within_a_minor(version: str) -> Rule:
    major, minor, _ = parse(version)
    return Rule(
        f"{major}.{minor - 1} to {major}.{minor + 1}",
        lambda found: found[0] == major and abs(found[1] - minor) <= 1,
    )


def at_least(version: str) -> Rule:
    wanted = parse(version)
    return Rule(f">= {version}, < {wanted[0] + 1}", lambda found: found[0] == wanted[0] and found >= wanted)


def _kubernetes(name: str) -> Part:
    major, minor, _ = parse(KUBERNETES)
    stamp = "k8s.io/component-base/version.git"
    return Part(
        name=name,
        version=KUBERNETES,
        recipe=GoTool(
            module="kubernetes",
            packages=(f"k8s.io/kubernetes/cmd/{name}",),
            ldflags=f"-X {stamp}Version=v{KUBERNETES} -X {stamp}Major={major} -X {stamp}Minor={minor}",
        ),
        # A client may differ from the server by one minor version. The components of a control plane may not differ.
        rule=within_a_minor(KUBERNETES) if name == "kubectl" else same_minor(KUBERNETES),
        ask=("version", "--client") if name == "kubectl" else ("--version",),
    )


HELM = Part(
    name="helm",
    version="3.22.0",
    recipe=GoInstall(
        packages=("helm.sh/helm/v3/cmd/helm@v3.22.0",),
        ldflags="-X helm.sh/helm/v3/internal/version.version=v3.22.0",
        # The types of Kubernetes are half of the build, and rendering a chart executes none of them.
        gcflags="k8s.io/...=-N -l",
    ),
    rule=at_least("3.14.0"),
    ask=("version", "--short"),
)
ETCD = Part(
    name="etcd",
    version="3.4.23",
    recipe=Unpacked(package="etcd-server", files=("usr/bin/etcd",)),
    rule=at_least("3.4.0"),
)
CONTAINERD = Part(
    name="containerd",
    version="2.4.2",
    recipe=GoInstall(
        packages=tuple(
            f"github.com/containerd/containerd/v2/cmd/{program}@v2.4.2"
            for program in ("containerd", "containerd-shim-runc-v2", "ctr")
        ),
        ldflags="-X github.com/containerd/containerd/v2/version.Version=v2.4.2",
    ),
    rule=at_least("2.1.0"),  # the first version whose OCI image volumes can mount a folder of the image
    also=("containerd-shim-runc-v2", "ctr"),
)
KUBE_ROUTER = Part(
    name="kube-router",
    version="1.6.1",
    recipe=GoTool(
        module="kube-router",
        packages=("github.com/cloudnativelabs/kube-router/cmd/kube-router",),
        ldflags="-X github.com/cloudnativelabs/kube-router/pkg/version.Version=v1.6.1",
    ),
    rule=at_least("1.6.0"),
)
COREDNS = Part(
    name="coredns",
    version="1.12.4",
    recipe=GoTool(module="coredns", packages=("fleetwright.dev/e2e/coredns",)),
    rule=at_least("1.11.0"),
    ask=("-version",),
)
PROMETHEUS = Part(
    name="prometheus",
    version="2.42.0",
    recipe=Unpacked(package="prometheus", files=("usr/bin/prometheus", "usr/bin/promtool")),
    rule=at_least("2.40.0"),
    also=("promtool",),
)
REGISTRY = Part(
    name="docker-registry",
    version="2.8.2",
    recipe=Unpacked(package="docker-registry", files=("usr/bin/docker-registry",)),
    rule=at_least("2.7.0"),  # the first version that accepts OCI manifests
)
KIND = Part(
    name="kind",
    version="0.33.0",
    recipe=GoInstall(packages=("sigs.k8s.io/kind@v0.33.0",)),
    rule=at_least("0.31.0"),  # a version that enforces network policies and runs a recent Kubernetes
)
# Only used if docker is running.
OPTIONAL = {"kind": KIND}

# In build order: helm first, because the chart needs only helm; then the programs of a control plane.
PARTS: dict[str, Part] = {
    part.name: part
    for part in (
        HELM,
        ETCD,
        *map(_kubernetes, ("kube-apiserver", "kube-controller-manager", "kubectl")),
        *map(_kubernetes, ("kube-scheduler", "kubelet", "kube-proxy")),
        CONTAINERD,
        KUBE_ROUTER,
        COREDNS,
        PROMETHEUS,
        REGISTRY,
    )
}
CONTROL_PLANE = ("etcd", "kube-apiserver", "kube-controller-manager")
_NODE_ALONE = ("kube-scheduler", "kubelet", "kube-proxy", "containerd", "kube-router", "coredns")
NODE = (*CONTROL_PLANE, *_NODE_ALONE, "kubectl")
WITHOUT_NODE = tuple(name for name in PARTS if name not in _NODE_ALONE)
"""The parts that the tests need if they run on a cluster of docker or on an existing one."""
