"""The `local` provider: one real node made of processes in a network namespace, without a container daemon.

It needs root and Linux. The parts are in `network`, `control_plane`, `node` and `addons`; this module starts them in
order and stops them in reverse order.
"""

import os
import shutil
import socket
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from e2e.cluster import addons, audit, binaries, cgroups, debian, kubeconfig, mounts, network, strays, waiting
from e2e.cluster.buildah import Buildah
from e2e.cluster.control_plane import ControlPlane, Place, Ports
from e2e.cluster.identity import Identity, remembered
from e2e.cluster.images import Built, Images
from e2e.cluster.kubectl import Kubectl
from e2e.cluster.node import Node
from e2e.cluster.parts import NODE
from e2e.cluster.paths import CHECKOUT, STATE
from e2e.cluster.processes import terminate
from e2e.cluster.progress import ClusterError, Progress
from tests.support.machine import machine_factor

PORTS = Ports(etcd=2379, etcd_peer=2380, api=6443, controllers=10257)
READY_SECONDS = 90.0


_CAPABILITIES = {"CAP_NET_ADMIN": 12, "CAP_SYS_ADMIN": 21}
"""The capabilities that create network namespaces, mounts and control groups, with their bits."""


def list_missing_capabilities(status: str) -> list[str]:
    """Return the capabilities that this process lacks, from the text of `/proc/self/status`."""
    effective = next((line.split()[1] for line in status.splitlines() if line.startswith("CapEff:")), "0")
    return [name for name, bit in _CAPABILITIES.items() if not int(effective, 16) >> bit & 1]


class Local:
    name = "local"
    local_base = True

    def __init__(self, progress: Progress, *, checkout: Path = CHECKOUT, state: Path = STATE) -> None:
        self._progress = progress
        self._checkout = checkout
        self._state = state

    def obstacle(self) -> str | None:
        if sys.platform != "linux" or os.geteuid():
            return "the local cluster needs Linux and root; with docker, use CLUSTER=kind"
        if missing := list_missing_capabilities(Path("/proc/self/status").read_text()):
            return (
                f"the local cluster needs {' and '.join(missing)}, which this container does not have: run it with "
                "--privileged"
            )
        return binaries.obstacle((*NODE, "helm"))

    def engine(self) -> Buildah:
        return Buildah()

    def up(self) -> None:
        obstacle = self.obstacle()
        if obstacle:
            raise ClusterError(obstacle)
        debian.install({**debian.NODE_PACKAGES, **debian.IMAGE_PACKAGES}, self._progress)
        binaries.ensure((*NODE, "helm"), self._progress)
        try:
            self._start()
        except ClusterError as refused:
            if not self._leftovers():
                raise
            self._progress.say(f"what was left of an earlier cluster is beyond repair, starting anew ({refused})")
            self.down()
            self._start()

    def kubectl(self) -> Kubectl:
        kubeconfig_path = self._state / "kubeconfig"
        if not kubeconfig_path.exists():
            raise ClusterError("there is no local cluster: python -m e2e.cluster up --provider local")
        program = binaries.ensure(["kubectl"], self._progress)["kubectl"]
        return Kubectl(program, kubeconfig_path, cache=self._state / "kubectl-cache")

    def load(self, built: Sequence[Built]) -> None:
        images = Images(self.engine(), self._progress, local_base=True)
        node = self._node(self._plane())
        present = set(node.ctr("images", "list", "--quiet").stdout.split())
        for image in built:
            if image.pinned not in present:
                node.ctr("images", "import", "--no-unpack", images.archive(image))
                self._progress.say(f"image {image.image.name}: loaded")
            node.ctr("images", "tag", "--force", image.pinned, image.image.reference)

    def refusals(self) -> list[audit.Refusal]:
        return self._plane().refusals()

    def down(self) -> None:
        if not (self._state / "octet").exists():
            return
        identity = self._identity()
        self._plane().stop()
        network.end_inhabitants(identity)
        cgroups.remove(identity.name)
        for folder in (identity.data, identity.sockets):
            mounts.undo(folder)
        network.remove(identity)
        for folder in (identity.data, identity.sockets, self._state):
            if folder.exists():
                shutil.rmtree(folder)
        strays.remove(identity)

    def status(self) -> list[str]:
        if not (self._state / "octet").exists():
            return ["no local cluster"]
        identity = self._identity()
        running = self._plane().processes.alive()
        missing = sorted({process.name for process in self._plane().processes.recorded()} - running)
        return [
            f"local cluster {identity.name}: node {identity.node_address}, services {identity.services}",
            f"running: {', '.join(sorted(running)) or 'nothing'}",
            *([f"ended: {', '.join(missing)}"] if missing else []),
            f"kubeconfig: {self._state / 'kubeconfig'}",
        ]

    @contextmanager
    def stopped_node(self) -> Iterator[None]:
        """Stop the kubelet and the container runtime, and start them again at the end. Processes of pods stay."""
        plane, node = self._plane(), self._identity().name
        heartbeat = _read_heartbeat(self.kubectl(), node)
        try:
            for process in plane.processes.recorded():
                if process.name in {"kubelet", "containerd"}:
                    terminate(process)
            yield
        finally:
            restarted = self._node(plane)
            restarted.start_runtime()
            restarted.start()
            # The conditions of the node are still those before the stop.
            waiting.until(
                lambda: _read_heartbeat(self.kubectl(), node) != heartbeat,
                what="heartbeat of the node",
                seconds=READY_SECONDS,
                alive=restarted.check,
            )

    def _start(self) -> None:
        identity = self._identity()
        network.create(identity)
        plane = self._plane()
        node = self._node(plane)
        node.start_runtime()
        self.load(Images(self.engine(), self._progress, local_base=True).build(("pause", "coredns")))
        plane.start()
        self._progress.say("control plane ready")
        node.start()
        self._furnish(identity, node)
        self._recycle_volumes(identity, plane)

    def _furnish(self, identity: Identity, node: Node) -> None:
        for folder in addons.volume_folders(identity):
            folder.mkdir(parents=True, exist_ok=True)
            folder.chmod(0o777)  # the kubelet does not give a hostPath volume to the pod's group
        kubectl = self.kubectl()
        kubectl.apply([*addons.network_policies(), *addons.dns(identity), *addons.storage(identity)])
        waiting.until(
            lambda: _is_true(kubectl, "Ready", "node", identity.name),
            what="node ready",
            seconds=READY_SECONDS,
            alive=node.check,
        )
        waiting.until(
            lambda: _is_true(kubectl, "Available", "deployment", "coredns", "--namespace=kube-system"),
            what="names resolve",
            seconds=READY_SECONDS,
            alive=node.check,
        )
        waiting.until(
            lambda: _connects(identity.dns_address, 53),
            what="services reachable from the host",
            seconds=READY_SECONDS,
            alive=node.check,
        )
        node.check()  # the conditions may be those of an earlier run
        self._progress.say(f"node {identity.name} ready")

    def _recycle_volumes(self, identity: Identity, plane: ControlPlane) -> None:
        kubectl, folder = self.kubectl(), addons.volume_folders(identity)[0].parent
        words = (sys.executable, "-m", "e2e.cluster.volume_recycler", kubectl.program, kubectl.kubeconfig, folder)
        plane.processes.ensure("volume-recycler", words, environment={"PYTHONPATH": str(self._checkout)})

    def _identity(self) -> Identity:
        return remembered(self._state / "octet", self._checkout)

    def _plane(self) -> ControlPlane:
        identity = self._identity()
        place = Place(identity.node_address, PORTS, services=identity.services, enter=network.enter(identity))
        return ControlPlane(
            self._state,
            place=place,
            users=(kubeconfig.node(identity.name),),
            audited=True,
            progress=self._progress,
        )

    def _node(self, plane: ControlPlane) -> Node:
        return Node(self._identity(), plane, binaries.ensure(NODE, self._progress))

    def _leftovers(self) -> bool:
        """Return True if a process of an earlier start is still recorded."""
        return len(self._plane().processes.recorded()) > len(self._plane().processes.alive())


def _read_heartbeat(kubectl: Kubectl, node: str) -> str:
    """Return the time at which the kubelet has renewed its Lease."""
    words = ("lease", node, "--namespace=kube-node-lease", "-o", "jsonpath={.spec.renewTime}")
    return kubectl.attempt("get", *words).stdout


def _is_true(kubectl: Kubectl, condition: str, *words: str) -> bool:
    path = f"jsonpath={{.status.conditions[?(@.type=={condition!r})].status}}".replace("'", '"')
    return kubectl.attempt("get", *words, "-o", path).stdout.strip() == "True"


def _connects(address: str, port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(machine_factor())
        return probe.connect_ex((address, port)) == 0
