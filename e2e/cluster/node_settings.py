"""The configuration of a local node's programs, as values. This module neither writes files nor starts programs."""

from pathlib import Path
from typing import Any

from e2e.cluster.identity import Identity

PAUSE_IMAGE = "localhost/fleetwright-pause:1"
CNI_PLUGINS = "/usr/lib/cni"


def containerd(identity: Identity, cni: Path) -> str:
    return f'''version = 3
root = "{identity.data}/containerd"
state = "{identity.sockets}/containerd"

[grpc]
  address = "{identity.sockets}/containerd.sock"

[plugins."io.containerd.cri.v1.images"]
  snapshotter = "overlayfs"
  [plugins."io.containerd.cri.v1.images".pinned_images]
    sandbox = "{PAUSE_IMAGE}"

[plugins."io.containerd.cri.v1.runtime"]
  disable_apparmor = true
  restrict_oom_score_adj = true
  netns_mounts_under_state_dir = true
  [plugins."io.containerd.cri.v1.runtime".containerd]
    default_runtime_name = "runc"
    [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
        SystemdCgroup = false
        Root = "{identity.sockets}/runc"
  [plugins."io.containerd.cri.v1.runtime".cni]
    bin_dirs = ["{CNI_PLUGINS}"]
    conf_dir = "{cni}"

[plugins."io.containerd.internal.v1.opt"]
  path = "{identity.data}/opt"

[plugins."io.containerd.nri.v1.nri"]
  disable = true  # its socket has one fixed place on a machine
'''


def cni(identity: Identity) -> dict[str, Any]:
    return {
        "cniVersion": "1.0.0",
        "name": identity.name,
        "plugins": [
            {
                "type": "bridge",
                "bridge": "cni0",
                "isGateway": True,
                "ipMasq": True,
                "hairpinMode": True,
                "ipam": {
                    "type": "host-local",
                    "ranges": [[{"subnet": identity.pods}]],
                    "routes": [{"dst": "0.0.0.0/0"}],
                    "dataDir": f"{identity.sockets}/cni",
                },
            },
            {"type": "portmap", "capabilities": {"portMappings": True}},
        ],
    }


def kubelet(identity: Identity) -> dict[str, Any]:
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": identity.node_address,
        "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
        # Only processes in the node's network namespace reach this address.
        "authorization": {"mode": "AlwaysAllow"},
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{identity.name}",
        "clusterDNS": [identity.dns_address],
        "clusterDomain": "cluster.local",
        "containerRuntimeEndpoint": f"unix://{identity.sockets}/containerd.sock",
        "enforceNodeAllocatable": [],
        "evictionHard": {"memory.available": "100Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
        "failCgroupV1": False,
        "failSwapOn": False,
        # The images were loaded, not pulled. The kubelet could not restore a collected image.
        "imageGCHighThresholdPercent": 100,
        "localStorageCapacityIsolation": True,
        "maxPods": 500,
        "podLogsDir": f"{identity.data}/pod-logs",
        "readOnlyPort": 0,
        "resolvConf": "",
        "serializeImagePulls": False,
        "volumePluginDir": f"{identity.data}/volume-plugins",
    }


def kube_proxy(identity: Identity, kubeconfig: Path) -> dict[str, Any]:
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "iptables",
        "clientConnection": {"kubeconfig": str(kubeconfig)},
        "clusterCIDR": identity.pods,
        "hostnameOverride": identity.name,
        "iptables": {"minSyncPeriod": "0s"},
        # With zero, the connection tracking of the machine stays unchanged.
        "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
    }
