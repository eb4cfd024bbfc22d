"""The pure functions of the local node and of the providers: texts, manifests, choices."""

import tomllib
from pathlib import Path

import pytest
from e2e.cluster import addons, base_image, cgroups, deploy, files, mounts, node_settings
from e2e.cluster.commands import choose
from e2e.cluster.existing import Existing
from e2e.cluster.identity import Identity
from e2e.cluster.image_list import AGENT, OFFLINE, OPERATOR
from e2e.cluster.images import Built
from e2e.cluster.kubeconfig import ADMIN, SCHEDULER, node, tokens
from e2e.cluster.progress import SILENT, ClusterError, Progress

IDENTITY = Identity("fw-abcdef", 100)


def test_containerd_settings_use_only_own_paths() -> None:
    settings = tomllib.loads(node_settings.containerd(IDENTITY, Path("/cni")))
    runtime = settings["plugins"]["io.containerd.cri.v1.runtime"]
    options = runtime["containerd"]["runtimes"]["runc"]["options"]
    ours = (settings["root"], settings["state"], settings["grpc"]["address"], options["Root"])
    assert all("/fleetwright/fw-abcdef/" in place for place in ours)
    assert settings["plugins"]["io.containerd.nri.v1.nri"]["disable"] is True


def test_dns_addon_serves_on_the_port_that_policies_name() -> None:
    manifests = {(item["kind"], item["metadata"]["name"]): item for item in addons.dns(IDENTITY)}
    assert manifests["ConfigMap", "coredns"]["data"]["Corefile"].startswith(".:53 ")
    service = manifests["Service", "kube-dns"]["spec"]
    assert service["clusterIP"] == node_settings.kubelet(IDENTITY)["clusterDNS"][0] == "10.100.128.10"
    assert all("targetPort" not in port for port in service["ports"])


def test_storage_addon_volumes_have_folders_and_are_retained() -> None:
    volumes = [item for item in addons.storage(IDENTITY) if item["kind"] == "PersistentVolume"]
    assert [Path(item["spec"]["hostPath"]["path"]) for item in volumes] == addons.volume_folders(IDENTITY)
    assert {item["spec"]["persistentVolumeReclaimPolicy"] for item in volumes} == {"Retain"}


MOUNTS = """tmpfs /sys/fs/cgroup tmpfs rw 0 0
cgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0
cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0
proc /proc proc rw 0 0"""


def test_cgroup_hierarchies_finds_both_versions() -> None:
    assert cgroups.hierarchies(MOUNTS) == [Path("/sys/fs/cgroup/cpu"), Path("/sys/fs/cgroup/unified")]


MOUNTINFO = """22 1 0:1 / / rw - ext4 /dev/vda rw
23 22 0:2 / /var/lib/fleetwright/fw-a/pods rw - tmpfs tmpfs rw
24 23 0:3 / /var/lib/fleetwright/fw-a/pods/with\\040space rw - tmpfs tmpfs rw
25 22 0:4 / /var/lib/fleetwright/fw-ab rw - tmpfs tmpfs rw"""


def test_mounts_below_a_folder_are_listed_innermost_first() -> None:
    below = mounts.below(Path("/var/lib/fleetwright/fw-a"), MOUNTINFO)
    assert below == [
        Path("/var/lib/fleetwright/fw-a/pods/with space"),
        Path("/var/lib/fleetwright/fw-a/pods"),
    ]


def test_base_image_mirror_is_the_apt_mirror_of_main() -> None:
    targets = "http://security.example/ bookworm-security main\nhttp://mirror.example/debian/ bookworm main\n"
    assert base_image.mirror(targets, "bookworm") == "http://mirror.example/debian"
    with pytest.raises(ClusterError, match="'trixie'"):
        base_image.mirror(targets, "trixie")


def test_tokens_are_created_once_and_name_the_groups(tmp_path: Path) -> None:
    file = tmp_path / "tokens.csv"
    users = (ADMIN, SCHEDULER, node("fw-abcdef"))
    first = tokens(file, users)
    assert tokens(file, users) == first
    assert len(set(first.values())) == 3
    assert file.read_text().splitlines()[2].endswith(',system:node:fw-abcdef,system:node:fw-abcdef,"system:nodes"')
    assert file.stat().st_mode & 0o077 == 0


def test_file_write_skips_unchanged_content(tmp_path: Path) -> None:
    file = tmp_path / "watched"
    files.write(file, "one")
    before = file.stat().st_mtime_ns
    files.write(file, "one")
    assert file.stat().st_mtime_ns == before
    files.write(file, "two")
    assert file.read_text() == "two"


def test_provider_choice_prefers_the_argument_and_known_names() -> None:
    assert choose("local", {"CLUSTER": "kind"}) == "local"
    assert choose(None, {"CLUSTER": "kind"}) == "kind"
    with pytest.raises(ClusterError, match="existing, kind, local"):
        choose("minikube", {})


def test_deploy_values_name_images_by_content() -> None:
    built = [Built(AGENT, "aaa"), Built(OPERATOR, "bbb"), Built(OFFLINE, "ccc")]
    assert deploy.values(built) == {
        "agentImage": "docker.io/fleetwright/agent:0.1.0-aaa",
        "image": "docker.io/fleetwright/operator:0.1.0-bbb",
    }


def test_existing_cluster_requires_one_kubeconfig_file(tmp_path: Path) -> None:
    chosen = Existing(SILENT, environment={"KUBECONFIG": f"{tmp_path}/a:{tmp_path}/b"}, state=tmp_path)
    with pytest.raises(ClusterError, match="KUBECONFIG must name one file"):
        chosen.up()


@pytest.mark.process
def test_existing_cluster_has_an_engine_only_with_a_load_command(tmp_path: Path) -> None:
    assert Existing(SILENT, environment={}, state=tmp_path).engine() is None
    assert Existing(SILENT, environment={"IMAGE_LOAD_COMMAND": "true"}, state=tmp_path).engine() is not None


def test_progress_shows_seconds_since_the_start() -> None:
    now = iter([100.0, 103.25])
    lines: list[str] = []
    Progress(write=lines.append, clock=lambda: next(now)).say("done")
    assert lines == ["    3.2s  done"]
