"""The operator against a real control plane: etcd, API server and controllers on loopback, one for the session.

No kubelet runs. `Kubelet` here reports what a kubelet would report of a pod; everything else is real. The operator runs
as a process with exactly the rights that the chart gives its service account.
"""

import json
import os
import signal
import ssl
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, TypeVar

import pytest
import yaml
from e2e.cluster import binaries
from e2e.cluster.audit import Refusal as Refused
from e2e.cluster.control_plane import ControlPlane
from e2e.cluster.deploy import SYSTEM
from e2e.cluster.kubeconfig import write as write_kubeconfig
from e2e.cluster.ports import free_port, next_name
from e2e.cluster.progress import CANNOT_RUN, SILENT
from e2e.control_plane.sessions import reap
from tests.rings.catalogue import CONTROL_PLANE_PROGRAMS
from tests.support.controlplane.administrator import OPERATOR_ACCOUNT, PATHS, Admin, Refusal, Space
from tests.support.controlplane.approvals import approval, client, policy  # noqa: F401 - fixtures
from tests.support.controlplane.gateway import account_token, gateway, operator_with_gateway  # noqa: F401 - fixtures
from tests.support.machine import ceiling
from tests.support.waiting import wait_until

ROOT = Path(__file__).parents[2]
Object = dict[str, Any]
T = TypeVar("T")
_QUIET_SECONDS = 1.5


def pytest_sessionstart(session: pytest.Session) -> None:
    """Report once why this ring cannot run here, instead of failing in every test."""
    obstacle = binaries.obstacle(CONTROL_PLANE_PROGRAMS)
    if obstacle:
        pytest.exit(obstacle, returncode=CANNOT_RUN)
    reap(session)


class Logs:
    """The only endpoint of a kubelet that the API server calls: `/containerLogs/<namespace>/<pod>/<container>`."""

    NODE = "logs"

    def __init__(self, folder: Path) -> None:
        self.lines: dict[str, str] = {}
        """Logs by pod. The key holds its namespace and name."""
        lines = self.lines

        class Door(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                namespace, pod = self.path.split("/")[2:4]
                line = lines.get(f"{namespace}/{pod}")
                self.send_response(200 if line is not None else 404)
                self.end_headers()
                self.wfile.write((line or "no such pod").encode())

            def log_request(self, code: Any = "-", size: Any = "-") -> None:
                """Log nothing."""

        key, certificate = folder / "key.pem", folder / "certificate.pem"
        command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=kubelet"]
        subprocess.run([*command, "-keyout", key, "-out", certificate], check=True, capture_output=True)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Door)
        self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.port = int(self._server.server_address[1])
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def join(self, admin: Admin) -> None:
        """Register the node that serves the logs of its pods."""
        admin.apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": self.NODE}})
        status = {
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": self.port}},
            "conditions": [_ready("True")],
        }
        admin.merge("Node", "", self.NODE, {"status": status}, subresource="/status")

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@dataclass(frozen=True)
class Kubelet:
    """Reports what a kubelet would report of pods."""

    space: Space
    logs: Logs

    def probed(
        self, owner: str, *, says: str = "", refuses: str = "", kind: str = "mcpserver", beside: str = ""
    ) -> str:
        """Finish the current probe of an object, with a report or with a refusal.

        Args: `beside` names a container that keeps running.
        """
        pod = self.space.eventually(lambda: self._bind_probe(owner, kind), f"a probe of {owner}")
        self._end_probe(pod, says=says, refuses=refuses, beside=beside)
        return pod

    def discover(self, server: str, *, says: str) -> None:
        """Finish the probes of an McpServer until its tools are known.

        The operator replaces a probe if the pods of the server change meanwhile.
        """

        def look() -> bool:
            if "discovery" in (self.space.get("McpServer", server).get("status") or {}):
                return True
            if pod := self._bind_probe(server, "mcpserver"):
                self._end_probe(pod, says=says)
            return False

        self.space.eventually(look, f"the tools of {server} are known")

    def _bind_probe(self, owner: str, kind: str) -> str | None:
        """Bind the current probe of an object to the node, and return its name; None if there is none."""
        admin, space = self.space.admin, self.space.name
        pod = self._newest(owner, f"fleetwright.dev/probed-{kind}")
        target = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod}, "target": {"name": Logs.NODE}}
        try:
            if pod is not None:
                admin.request("POST", f"{PATHS['Pod'].format(space)}/{pod}/binding", target)
        except Refusal as refusal:
            if refusal.status != 404:
                raise
            return None  # The pod was deleted meanwhile, and another one follows.
        return pod

    def _end_probe(self, pod: str, *, says: str, refuses: str = "", beside: str = "") -> None:
        admin, space = self.space.admin, self.space.name
        self.logs.lines[f"{space}/{pod}"] = f"{says}\n"
        ended = {"exitCode": 2 if refuses else 0, "reason": "Error" if refuses else "Completed", "message": refuses}
        container = {"name": "probe", "image": "img", "imageID": "", "ready": False, "restartCount": 0}
        states = [{**container, "state": {"terminated": ended}}]
        phase = "Failed" if refuses else "Succeeded"
        if beside:
            running = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
            phase, states = "Running", [{**container, "name": beside, "state": running}, *states]
        status = {"phase": phase, "containerStatuses": states}
        admin.merge("Pod", space, pod, {"status": status}, subresource="/status")

    def run(self, agent: str, *, label: str = "fleetwright.dev/agent") -> str:
        """Wait for a pod of the newest template, report it as running and ready, and return its name."""
        return self._report(agent, label, {"phase": "Running", "conditions": [_ready("True")]})

    def fail(self, agent: str, state: Object, last: Object | None = None, *, image: str = "img") -> str:
        """Report this state of the pod's container."""
        container = {"name": "agent", "image": image, "imageID": "", "ready": False, "restartCount": 1, "state": state}
        if last is not None:
            container["lastState"] = last
        status = {"phase": "Pending", "conditions": [_ready("False")], "containerStatuses": [container]}
        return self._report(agent, "fleetwright.dev/agent", status)

    def prove(self, agent: str, *, code: int = 0, says: str = "") -> str:
        """End the preflight of an agent's next revision with this exit code."""
        ended = {"terminated": {"exitCode": code, "message": says, "reason": "Ended"}}
        container = {"name": "agent", "image": "img", "imageID": "", "ready": False, "restartCount": 0, "state": ended}
        status = {"phase": "Failed" if code else "Succeeded", "containerStatuses": [container]}
        return self._report(agent, "fleetwright.dev/probed-agent", status)

    def _report(self, owner: str, label: str, status: Object) -> str:
        def report() -> str | None:
            pod = self._newest(owner, label)
            if pod is None:
                return None
            try:
                self.space.admin.merge("Pod", self.space.name, pod, {"status": status}, subresource="/status")
            except Refusal as refusal:
                if refusal.status != 404:
                    raise
                return None  # The pod was deleted meanwhile, and another one follows.
            return pod

        return self.space.eventually(report, f"a pod of {owner}")

    def _newest(self, owner: str, label: str) -> str | None:
        pods = [
            pod
            for pod in self.space.list_objects("Pod")
            if pod["metadata"]["labels"].get(label) == owner
            and "deletionTimestamp" not in pod["metadata"]
            # The operator deletes a probe that has ended, but only after it has read its result.
            and pod["status"].get("phase") not in {"Succeeded", "Failed"}
        ]
        if label == "fleetwright.dev/agent":
            # For a moment after a rollout, only the pod of the previous template exists.
            template = (self.space.find("Deployment", owner) or {}).get("spec", {}).get("template", {})
            wanted = template.get("metadata", {}).get("annotations", {}).items()
            pods = [pod for pod in pods if wanted <= pod["metadata"].get("annotations", {}).items()]
        return str(pods[0]["metadata"]["name"]) if len(pods) == 1 else None


def _ready(status: str) -> Object:
    return {"type": "Ready", "status": status, "lastTransitionTime": "2026-01-01T00:00:00Z"}


class Operator:
    """The operator process and its log."""

    def __init__(
        self, kubeconfig: Path, log: Path, *, identity: str = "first", environment: dict[str, str] | None = None
    ) -> None:
        self.log = log
        self.port = free_port()
        self._environment = {
            **{key: value for key, value in os.environ.items() if not key.startswith(("KUBE", "FLEETWRIGHT"))},
            "KUBECONFIG": str(kubeconfig),
            "POD_NAME": identity,
            "POD_NAMESPACE": SYSTEM,
            "FLEETWRIGHT_LEASE_NAME": OPERATOR_ACCOUNT,
            **(environment or {}),
            "FLEETWRIGHT_OPS_PORT": str(self.port),
        }
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, *, wait: bool = True) -> None:
        command = [sys.executable, "-m", "fleetwright_operator"]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(command, env=self._environment, stderr=log, stdout=log)
        if wait:
            self.wait_until_leading()

    def wait_until_leading(self) -> None:
        wait_until(
            lambda: self.leads() and self._get("/readyz"),
            "the operator leads",
            shown=self.log.read_text,
            alive=self._assert_running,
            pause=0.05,
        )

    def _assert_running(self) -> None:
        assert self.exit_code() is None, self.log.read_text()[-4000:]

    def stop(self, how: signal.Signals = signal.SIGTERM) -> int:
        assert self._process is not None
        self._process.send_signal(how)
        return self._process.wait(timeout=ceiling())

    def send(self, how: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(how)

    def restart(self) -> None:
        self.stop()
        self.start()

    def exit_code(self) -> int | None:
        assert self._process is not None
        return self._process.poll()

    def leads(self) -> bool:
        return self.metrics().get("fleetwright_leader") == 1.0

    def metrics(self) -> dict[str, float]:
        lines = [line for line in self._get("/metrics").splitlines() if line and not line.startswith("#")]
        return {line.rpartition(" ")[0]: float(line.rpartition(" ")[2]) for line in lines}

    def wait_for_settled_writes(self, *, events: bool = False) -> dict[str, float]:
        """Return the counts of writes once they have not changed for a while.

        On a busy machine, a reconcile may pause for longer than half a second between two writes. The operator delays
        Warnings of earlier changes for longer than that, so Events count only on request, after a restart.
        """
        before: dict[str, float] = {"": 0.0}
        since = time.monotonic()

        def is_quiet() -> bool:
            nonlocal before, since
            metrics = self.metrics()
            now = {
                name: value
                for name, value in metrics.items()
                if "api_writes_total" in name and (events or 'kind="Event"' not in name)
            }
            if now != before or not metrics:
                before, since = now, time.monotonic()
                return False
            return time.monotonic() - since > _QUIET_SECONDS and metrics["fleetwright_queue_depth"] == 0

        wait_until(is_quiet, "the operator stops writing", shown=lambda: before, pause=0.25)
        return before

    def _get(self, path: str) -> str:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=ceiling()) as answer:
                return str(answer.read().decode())
        except OSError:
            return ""


def _is_asked_for(refusal: Refused) -> bool:
    """One test deliberately gives an operator work for which its chart grants no rights."""
    return refusal.account.endswith(":narrow-operator") and "/ciliumnetworkpolicies" in refusal.request


@pytest.fixture(scope="session")
def control_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    with ControlPlane(tmp_path_factory.mktemp("plane"), audited=True, roomy=True) as plane:
        yield plane
        ours = f"system:serviceaccount:{SYSTEM}:"
        refused = [refusal for refusal in plane.refusals() if refusal.account.startswith(ours)]
        assert [refusal for refusal in refused if not _is_asked_for(refusal)] == [], "the chart's rights are too small"
    # A process with many threads is a zombie for a moment before it can be reaped. Retry until it is.
    for _ in range(20):
        plane.processes.alive()
        time.sleep(0.05)


@pytest.fixture(scope="session")
def admin(control_plane: ControlPlane) -> Admin:
    """An administrator of a control plane with the CRDs installed."""
    admin = Admin(control_plane.server, control_plane.token, control_plane.ca)
    for path in sorted((ROOT / "crds").glob("*.yaml")):
        body = yaml.safe_load(path.read_text())
        admin.apply(body)
        plural = body["spec"]["names"]["plural"]
        wait_until(lambda plural=plural: _is_served(admin, plural), f"{plural} are served")
    return admin


def _is_served(admin: Admin, plural: str) -> bool:
    try:
        admin.request("GET", f"/apis/fleetwright.dev/v1alpha1/{plural}")
    except Refusal:
        return False
    return True


@pytest.fixture(scope="session")
def chart_of() -> Callable[..., list[Object]]:
    """Return a function that renders the chart for a release name and values."""

    def render(release: str, **values: Any) -> list[Object]:
        values = values if values.get("namespaces") else {"rbac": {"clusterWideSecrets": True}, **values}
        helm = binaries.ensure(["helm"], SILENT)["helm"]
        command = [helm, "template", release, ROOT / "charts" / "fleetwright", f"--namespace={SYSTEM}", "--values=-"]
        done = subprocess.run(
            [*command, "--kube-version=1.36.0"], input=json.dumps(values), capture_output=True, text=True, check=True
        )
        return [document for document in yaml.safe_load_all(done.stdout) if document]

    return render


@pytest.fixture(scope="session")
def rendered_chart(chart_of: Callable[..., list[Object]]) -> list[Object]:
    return chart_of("fleetwright", approvals={"allowedAnnotations": ["example.com/changed-by"]})


@pytest.fixture(scope="session")
def kubeconfig(
    control_plane: ControlPlane, admin: Admin, rendered_chart: list[Object], tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """The kubeconfig of the service account, with exactly the chart's rights."""
    admin.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SYSTEM}})
    return _account(control_plane, admin, rendered_chart, OPERATOR_ACCOUNT, tmp_path_factory.mktemp("operator"))


def _account(plane: ControlPlane, admin: Admin, chart: list[Object], account: str, folder: Path) -> Path:
    for body in chart:
        if body["kind"] == "ServiceAccount" or "rbac" in body["apiVersion"]:
            admin.apply(body)
    path = f"/api/v1/namespaces/{SYSTEM}/serviceaccounts/{account}/token"
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}
    token = admin.request("POST", path, request)["status"]["token"]
    return write_kubeconfig(folder / "kubeconfig", name="operator", server=plane.server, ca=plane.ca, token=token)


@pytest.fixture
def another_operator(
    control_plane: ControlPlane, admin: Admin, chart_of: Callable[..., list[Object]], tmp_path: Path
) -> Callable[..., Operator]:
    """Return a function that makes the operator of another release, with the rights and environment from its values.

    The operator is not started. `environment` overrides the values.
    """

    def make(release: str, *, environment: dict[str, str] | None = None, **values: Any) -> Operator:
        chart = chart_of(release, **values)
        kubeconfig = _account(control_plane, admin, chart, f"{release}-operator", tmp_path)
        deployment = next(body for body in chart if body["kind"] == "Deployment")
        (container,) = deployment["spec"]["template"]["spec"]["containers"]
        said = {variable["name"]: variable["value"] for variable in container["env"] if "value" in variable}
        said.pop("FLEETWRIGHT_CATALOG_FILE")
        return Operator(
            kubeconfig, tmp_path / "operator.log", identity=release, environment={**said, **(environment or {})}
        )

    return make


@pytest.fixture(scope="session")
def operator(kubeconfig: Path) -> Iterator[Operator]:
    """The operator of the session. The teardown of the control plane checks that no request of it was forbidden."""
    # By default a token is listed for 15 seconds before its use; the scenarios on a real cluster keep that.
    environment = {"FLEETWRIGHT_TOKEN_LEAD_SECONDS": "3"}
    operator = Operator(kubeconfig, kubeconfig.parent / "operator.log", environment=environment)
    operator.start()
    yield operator
    assert operator.stop() == 0
    lines = [json.loads(line) for line in operator.log.read_text().splitlines()]
    # kopf logs errors of its own when a process is stopped during its start.
    ours = ("fleetwright_operator", "__main__")
    assert [line for line in lines if line["level"] == "error" and line["logger"].startswith(ours)] == []


@pytest.fixture
def alone(operator: Operator, another_operator: Callable[..., Operator]) -> Iterator[Callable[..., Operator]]:
    """Start an operator of another release with its values, while the operator of the session is stopped."""
    started: list[Operator] = []

    def start(release: str, **values: Any) -> Operator:
        one = another_operator(release, **values)
        one.start()
        started.append(one)
        return one

    assert operator.stop() == 0
    yield start
    for one in started:
        if one.exit_code() is None:
            one.stop()
    operator.start()


@pytest.fixture
def space(admin: Admin) -> Iterator[Space]:
    with _namespace(admin) as space:
        yield space


@pytest.fixture
def other_space(admin: Admin) -> Iterator[Space]:
    with _namespace(admin) as space:
        yield space


@contextmanager
def _namespace(admin: Admin) -> Iterator[Space]:
    name = next_name("t")
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    admin.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}})
    space = Space(admin, name)
    space.eventually(lambda: space.find("ServiceAccount", "default"), "the namespace is ready")
    yield space
    admin.delete("Namespace", "", name)


@pytest.fixture
def kubelet(space: Space, logs: Logs) -> Kubelet:
    return Kubelet(space, logs)


@pytest.fixture(scope="session")
def logs(admin: Admin, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Logs]:
    logs = Logs(tmp_path_factory.mktemp("kubelet"))
    logs.join(admin)
    yield logs
    logs.stop()


@pytest.fixture(name="refusal")
def refusal_type() -> type[Refusal]:
    return Refusal
