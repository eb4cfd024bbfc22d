"""Runs the programs of a local node: container runtime, kubelet, scheduler, service proxy, policy enforcer.

The network and the control plane must exist before the node starts.
"""

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from e2e.cluster import cgroups, files, kubeconfig, network, node_settings, waiting
from e2e.cluster.control_plane import ControlPlane
from e2e.cluster.identity import Identity
from e2e.cluster.kubeconfig import PROXY, ROUTER, SCHEDULER
from e2e.cluster.progress import ClusterError

PROGRAMS = ("containerd", "kubelet", "kube-scheduler", "kube-proxy", "kube-router")


class Node:
    def __init__(self, identity: Identity, plane: ControlPlane, programs: Mapping[str, Path]) -> None:
        self._identity = identity
        self._plane = plane
        self._programs = programs
        self._settings = plane.folder / "node"
        self._enter = network.enter(identity)

    def start_runtime(self) -> None:
        """Start the container runtime first, so that images can be loaded before any pod needs them."""
        cgroups.create(self._identity.name)
        cni = self._settings / "cni"
        cni.mkdir(parents=True, exist_ok=True)
        files.write(cni / "10-fleetwright.conflist", json.dumps(node_settings.cni(self._identity)))
        config = self._settings / "containerd.toml"
        files.write(config, node_settings.containerd(self._identity, cni))
        self._identity.sockets.mkdir(parents=True, exist_ok=True)
        self._identity.data.mkdir(parents=True, exist_ok=True)
        shim_path = f"{self._programs['containerd'].parent}:/usr/sbin:/usr/bin:/sbin:/bin"
        self._plane.processes.ensure(
            "containerd",
            [*self._enter, self._programs["containerd"], f"--config={config}"],
            environment={"PATH": shim_path},
        )
        waiting.until(
            lambda: self.ctr("version", check=False).returncode == 0,
            what="containerd answers",
            seconds=30,
            alive=lambda: self._plane.processes.check("containerd"),
        )

    def ctr(self, *words: str | Path, check: bool = True) -> subprocess.CompletedProcess[str]:
        command: list[str | Path] = [
            self._programs["ctr"],
            f"--address={self._identity.sockets}/containerd.sock",
            "--namespace=k8s.io",
        ]
        done = subprocess.run([*command, *words], capture_output=True, text=True, check=False)
        if check and done.returncode:
            raise ClusterError(f"ctr {' '.join(map(str, words))}: {done.stderr.strip()}")
        return done

    def start(self) -> None:
        self._start_kubelet()
        own = self._plane.kubeconfig_of(SCHEDULER)
        self._run(
            "kube-scheduler",
            *(f"--{use}kubeconfig={own}" for use in ("", "authentication-", "authorization-")),
            "--leader-elect=false",
            "--bind-address=127.0.0.1",
        )
        proxy = self._settings / "kube-proxy.json"
        files.write(proxy, json.dumps(node_settings.kube_proxy(self._identity, self._plane.kubeconfig_of(PROXY))))
        self._run("kube-proxy", f"--config={proxy}")
        self._run(
            "kube-router",
            f"--kubeconfig={self._plane.kubeconfig_of(ROUTER)}",
            f"--hostname-override={self._identity.name}",
            f"--service-cluster-ip-range={self._identity.services}",
            "--run-firewall=true",
            "--run-router=false",
            "--run-service-proxy=false",
            "--metrics-port=0",
        )

    def check(self) -> None:
        self._plane.processes.check(*PROGRAMS)

    def _start_kubelet(self) -> None:
        config = self._settings / "kubelet.json"
        files.write(config, json.dumps(node_settings.kubelet(self._identity)))
        self._run(
            "kubelet",
            f"--config={config}",
            f"--kubeconfig={self._plane.kubeconfig_of(kubeconfig.node(self._identity.name))}",
            f"--hostname-override={self._identity.name}",
            f"--node-ip={self._identity.node_address}",
            f"--root-dir={self._identity.data}/kubelet",
            f"--cert-dir={self._settings}/kubelet-pki",
        )

    def _run(self, name: str, *words: str) -> None:
        path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
        self._plane.processes.ensure(name, [*self._enter, self._programs[name], *words], environment={"PATH": path})
