"""A Kubernetes control plane without nodes: etcd, API server and controller manager as local processes.

    with ControlPlane(folder) as plane:
        ... plane.kubeconfig, plane.server, plane.token, plane.ca ...

Deployments make ReplicaSets and Pods here, garbage collection and namespaces work, and no container runs.
The local node is built on the same class. Refuses to keep data: nothing is synced to disk.
"""

import ssl
import urllib.request
from dataclasses import dataclass
from ipaddress import ip_network
from pathlib import Path
from types import TracebackType
from typing import Self

from e2e.cluster import audit, binaries, kubeconfig, pki, waiting
from e2e.cluster.kubeconfig import ADMIN, CONTROLLER_MANAGER, PROXY, ROUTER, SCHEDULER, User
from e2e.cluster.parts import CONTROL_PLANE
from e2e.cluster.ports import free_port
from e2e.cluster.processes import Processes, terminate
from e2e.cluster.progress import SILENT, Progress
from tests.support.machine import ceiling

READY_SECONDS = 90.0
_ANSWER_SECONDS = 0.5
"""The time in which the API server answers a request."""
_ROOMY = {"GOGC": "800", "GOMEMLIMIT": "5GiB"}
"""Garbage is collected rarely, because test machines have enough memory but little processor time."""
_SPARE_ACCOUNT = "/api/v1/namespaces/kube-public/serviceaccounts/default"
"""An account that no test uses. If it is deleted, the controllers create it again."""


@dataclass(frozen=True)
class Ports:
    etcd: int
    etcd_peer: int
    api: int
    controllers: int

    @classmethod
    def free(cls) -> Self:
        """Return ports that no other program of this machine uses or is about to use."""
        return cls(free_port(), free_port(), free_port(), free_port())


@dataclass(frozen=True)
class Place:
    """The address on which the control plane listens, and the command prefix that starts a program there."""

    address: str
    ports: Ports
    services: str = "10.96.0.0/16"
    enter: tuple[str, ...] = ()


class ControlPlane:
    def __init__(
        self,
        folder: Path,
        *,
        place: Place | None = None,
        users: tuple[User, ...] = (),
        controllers: tuple[str, ...] = (),
        audited: bool = False,
        roomy: bool = False,
        progress: Progress = SILENT,
    ) -> None:
        """Args: with `audited`, `refusals` returns requests without permission; `roomy` uses more memory for more
        speed.
        """
        self.folder = folder
        self.place = place or Place("127.0.0.1", Ports.free())
        self.processes = Processes(folder)
        self._users = (ADMIN, CONTROLLER_MANAGER, SCHEDULER, PROXY, ROUTER, *users)
        self._controllers = controllers
        self._audited = audited
        self._environment = _ROOMY if roomy else {}
        self._progress = progress

    @property
    def server(self) -> str:
        return f"https://{self.place.address}:{self.place.ports.api}"

    @property
    def kubeconfig(self) -> Path:
        """The path of the administrator's kubeconfig."""
        return self.folder / "kubeconfig"

    @property
    def ca(self) -> Path:
        return self.folder / "pki" / "apiserver.crt"

    @property
    def token(self) -> str:
        return self._tokens()[ADMIN]

    def refusals(self) -> list[audit.Refusal]:
        return audit.refusals(self.folder)

    def kubeconfig_of(self, user: User) -> Path:
        path = self.folder / "kubeconfigs" / user.name.replace(":", "-")
        path.parent.mkdir(exist_ok=True)
        return kubeconfig.write(path, name=self.folder.name, server=self.server, ca=self.ca, token=self._tokens()[user])

    def start(self) -> None:
        """Start the programs that do not run. Return when pods can be created."""
        programs = binaries.ensure(CONTROL_PLANE, self._progress)
        self._prepare()
        self._start_etcd(programs["etcd"])
        self._start_api_server(programs["kube-apiserver"])
        waiting.until(
            lambda: self._get("/readyz") == 200,
            what="API server ready",
            seconds=READY_SECONDS,
            alive=lambda: self.processes.check("etcd", "kube-apiserver"),
        )
        kubeconfig.write(self.kubeconfig, name=self.folder.name, server=self.server, ca=self.ca, token=self.token)
        self._start_controllers(programs["kube-controller-manager"])
        waiting.until(
            lambda: self._get("/api/v1/namespaces/default/serviceaccounts/default") == 200,
            what="controller manager at work",
            seconds=READY_SECONDS,
            alive=lambda: self.processes.check("kube-controller-manager"),
        )

    def restart_controllers(self) -> None:
        """Return once the new controllers work, that is once they create a deleted service account again.

        A process that exits while it starts, because its port was taken or the API server was not ready, is started
        again, as a kubelet would do.
        """
        program = binaries.ensure(CONTROL_PLANE, self._progress)["kube-controller-manager"]
        for process in self.processes.recorded():
            if process.name == "kube-controller-manager":
                terminate(process)
        self._call("DELETE", _SPARE_ACCOUNT)
        waiting.until(
            lambda: self._call("GET", _SPARE_ACCOUNT) == 200,
            what=f"controllers at work after a restart; see {self.processes.log('kube-controller-manager')}",
            seconds=READY_SECONDS,
            alive=lambda: self._start_controllers(program),
            pause=0.5,
        )

    def stop(self) -> None:
        self.processes.stop()

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def _prepare(self) -> None:
        folder = self.folder / "pki"
        folder.mkdir(parents=True, exist_ok=True)
        pki.make_key(folder / "service-accounts.key")
        services = ip_network(self.place.services).hosts()
        pki.certify(self.ca, addresses=(self.place.address, "127.0.0.1", str(next(services))))
        self._tokens()

    def _tokens(self) -> dict[User, str]:
        return kubeconfig.tokens(self.folder / "pki" / "tokens.csv", self._users)

    def _start_etcd(self, program: Path) -> None:
        client = f"http://127.0.0.1:{self.place.ports.etcd}"
        peer = f"http://127.0.0.1:{self.place.ports.etcd_peer}"
        self.processes.ensure(
            "etcd",
            [
                *self.place.enter,
                program,
                f"--data-dir={self.folder / 'etcd'}",
                f"--listen-client-urls={client}",
                f"--advertise-client-urls={client}",
                f"--listen-peer-urls={peer}",
                f"--initial-advertise-peer-urls={peer}",
                f"--initial-cluster=default={peer}",
                "--unsafe-no-fsync",
                "--log-level=warn",
            ],
            environment=self._environment,
        )

    def _start_api_server(self, program: Path) -> None:
        keys = self.folder / "pki"
        loopback = self.place.address.startswith("127.")
        self.processes.ensure(
            "kube-apiserver",
            [
                *self.place.enter,
                program,
                f"--etcd-servers=http://127.0.0.1:{self.place.ports.etcd}",
                f"--secure-port={self.place.ports.api}",
                f"--bind-address={self.place.address if loopback else '0.0.0.0'}",
                f"--advertise-address={self.place.address}",
                # Endpoints may not contain a loopback address, and nothing could use such an endpoint.
                f"--endpoint-reconciler-type={'none' if loopback else 'lease'}",
                f"--cert-dir={keys}",
                f"--token-auth-file={keys / 'tokens.csv'}",
                # Nothing here resolves node names.
                "--kubelet-preferred-address-types=InternalIP",
                "--authorization-mode=Node,RBAC",
                "--enable-admission-plugins=NodeRestriction",
                "--allow-privileged=true",
                "--service-account-issuer=https://kubernetes.default.svc",
                f"--service-account-key-file={keys / 'service-accounts.key'}",
                f"--service-account-signing-key-file={keys / 'service-accounts.key'}",
                f"--service-cluster-ip-range={self.place.services}",
                *(audit.prepare(self.folder) if self._audited else ()),
            ],
            environment=self._environment,
        )

    def _start_controllers(self, program: Path) -> None:
        own = self.kubeconfig_of(CONTROLLER_MANAGER)
        self.processes.ensure(
            "kube-controller-manager",
            [
                *self.place.enter,
                program,
                f"--kubeconfig={own}",
                f"--authentication-kubeconfig={own}",
                f"--authorization-kubeconfig={own}",
                f"--cert-dir={self.folder / 'pki' / 'controllers'}",
                f"--secure-port={self.place.ports.controllers}",
                "--bind-address=127.0.0.1",
                f"--service-account-private-key-file={self.folder / 'pki' / 'service-accounts.key'}",
                f"--root-ca-file={self.ca}",
                "--use-service-account-credentials",
                "--leader-elect=false",
                # Tests create hundreds of objects at once and wait until the controllers have processed them.
                "--kube-api-qps=200",
                "--kube-api-burst=400",
                *self._controllers,
            ],
            environment=self._environment,
        )

    def _get(self, path: str) -> int:
        return self._call("GET", path)

    def _call(self, method: str, path: str) -> int:
        """Send a request as the administrator, and return the status; 0 if there is no response yet."""
        headers = {"Authorization": f"Bearer {self.token}"}
        request = urllib.request.Request(self.server + path, headers=headers, method=method)
        try:
            context = ssl.create_default_context(cafile=str(self.ca))
            # A proxy of the environment cannot reach the addresses of the cluster.
            opener = urllib.request.build_opener(
                urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
            )
            with opener.open(request, timeout=ceiling(_ANSWER_SECONDS)) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as refused:
            with refused:  # the response holds the connection
                return int(refused.code)
        except (OSError, ssl.SSLError):
            return 0
