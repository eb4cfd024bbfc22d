"""The build of missing programs: what is built, by which commands, and what takes its place."""

import shutil
from pathlib import Path

import pytest
from e2e.cluster import binaries, cgroups
from e2e.cluster.parts import CONTROL_PLANE, ETCD, KUBERNETES, PARTS
from e2e.cluster.progress import ClusterError, Progress

pytestmark = pytest.mark.process

GO = """#!/bin/sh
# A Go that writes empty programs and records its commands.
if [ "$1" = env ]; then echo go1.26.8; exit; fi
echo "$@" >>"$LINES_OF_GO"
for word in "$@"; do
  case "$word" in
    */) into=$word ;;
    *cmd/*)
      program=${word##*/}
      file=${into:-$GOBIN/}${program%@*}
      echo '#!/bin/sh' >"$file"
      chmod +x "$file" ;;
  esac
done
"""


@pytest.fixture
def bare_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with a Go, the commands of which are recorded in `commands`, and with no program of a cluster."""
    path = tmp_path / "path"
    path.mkdir()
    for tool in ("nice", "sh", "chmod"):
        (path / tool).symlink_to(str(shutil.which(tool)))
    _write_program(path / "go", GO)
    _write_program(path / "etcd", "#!/bin/sh\necho 'etcd Version: 3.5.9'\n")
    monkeypatch.setenv("LINES_OF_GO", str(tmp_path / "commands"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("PATH", str(path))
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    monkeypatch.delenv("FLEETWRIGHT_PROGRAMS", raising=False)
    return tmp_path


def _write_program(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    file.chmod(0o755)


def commands_of(machine: Path) -> list[list[str]]:
    """Return the packages of each recorded command of Go."""
    lines = (machine / "commands").read_text().splitlines()
    return [[word.rpartition("/")[2] for word in line.split() if "/cmd/" in word] for line in lines]


def test_control_plane_needs_one_build_of_two_programs(bare_machine):
    paths = binaries.ensure(CONTROL_PLANE, Progress(write=lambda _: None))
    assert commands_of(bare_machine) == [["kube-apiserver", "kube-controller-manager"]]
    assert paths["etcd"] == bare_machine / "path" / "etcd"
    assert all(path.exists() for path in paths.values())


def test_node_build_leaves_out_the_programs_that_exist(bare_machine):
    silent = Progress(write=lambda _: None)
    binaries.ensure(CONTROL_PLANE, silent)
    binaries.ensure([*CONTROL_PLANE, "kubectl", "kubelet", "kube-proxy", "containerd"], silent)
    later = sorted(commands_of(bare_machine)[1:])
    programs = ["containerd@v2.4.2", "containerd-shim-runc-v2@v2.4.2", "ctr@v2.4.2"]
    assert later == [programs, ["kubectl", "kubelet", "kube-proxy"]]


def test_build_prints_what_would_make_it_unnecessary(bare_machine):
    lines: list[str] = []
    binaries.ensure(["kube-apiserver"], Progress(write=lines.append))
    cache = str(bare_machine / "cache" / "fleetwright" / "bin")
    for words in ("kube-apiserver (1.36.x)", "PATH", "KUBEBUILDER_ASSETS", "FLEETWRIGHT_PROGRAMS", cache):
        assert words in "\n".join(lines)


@pytest.mark.parametrize(
    "folder",
    [
        pytest.param(f"kube-apiserver-{KUBERNETES}", id="a copy of a cache"),
        pytest.param(f"bin/kube-apiserver-{KUBERNETES}", id="a copy of the folder around the cache"),
        pytest.param("", id="a folder of programs"),
    ],
)
def test_mounted_programs_are_found_before_those_on_path(bare_machine, monkeypatch, folder):
    said = f"#!/bin/sh\necho 'Kubernetes v{KUBERNETES}'\n"
    _write_program(bare_machine / "path" / "kube-apiserver", said)
    _write_program(bare_machine / "mounted" / folder / "kube-apiserver", said)
    monkeypatch.setenv("FLEETWRIGHT_PROGRAMS", f"{bare_machine}/none:{bare_machine}/mounted")
    assert binaries.find(PARTS["kube-apiserver"]) == bare_machine / "mounted" / folder


def test_programs_of_a_copied_cache_need_a_fitting_version(bare_machine, monkeypatch):
    mounted = bare_machine / "mounted"
    _write_program(
        mounted / f"kube-apiserver-{KUBERNETES}" / "kube-apiserver", "#!/bin/sh\necho 'Kubernetes v1.20.0'\n"
    )
    monkeypatch.setenv("FLEETWRIGHT_PROGRAMS", str(mounted))
    assert binaries.find(PARTS["kube-apiserver"]) is None


def test_programs_of_setup_envtest_are_found(bare_machine):
    store = bare_machine / "data" / "kubebuilder-envtest" / "k8s"
    for version in ("1.35.0", KUBERNETES):
        _write_program(
            store / f"{version}-linux-amd64" / "kube-apiserver", f"#!/bin/sh\necho 'Kubernetes v{version}'\n"
        )
    assert binaries.find(PARTS["kube-apiserver"]) == store / f"{KUBERNETES}-linux-amd64"


def test_missing_programs_names_only_what_a_build_would_make(bare_machine):
    assert binaries.missing_programs([ETCD.name, "kubectl"]) == ["kubectl"]


@pytest.mark.parametrize("name", ["promtool", "prometheus"])
def test_part_is_found_by_each_of_its_programs(bare_machine, name):
    for program in ("prometheus", "promtool"):
        _write_program(bare_machine / "path" / program, "#!/bin/sh\necho 'prometheus, version 2.42.0'\n")
    assert binaries.ensure([name], Progress(write=lambda _: None))["promtool"] == bare_machine / "path" / "promtool"


def test_unknown_name_is_refused_with_the_known_names(bare_machine):
    with pytest.raises(ClusterError, match="no program of a cluster is named kubeadm; there are helm, etcd"):
        binaries.ensure(["helm", "kubeadm"], Progress(write=lambda _: None))


def test_full_or_read_only_cache_is_named_with_its_remedy(bare_machine, monkeypatch):
    (bare_machine / "cache").write_text("a file, so that no folder can be made below it")
    with pytest.raises(ClusterError, match="cache/fleetwright cannot keep the programs; XDG_CACHE_HOME names"):
        binaries.ensure(["kube-apiserver"], Progress(write=lambda _: None))


def test_builds_that_wait_do_not_start_after_a_failure(bare_machine, monkeypatch):
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0})
    _write_program(bare_machine / "path" / "go", GO.replace('echo "$@" >>', 'echo "$@" >>"$LINES_OF_GO"; exit 143; #'))
    with pytest.raises(ClusterError, match="go could not build"):
        binaries.ensure(["helm", "kubelet", "containerd"], Progress(write=lambda _: None))
    assert len(commands_of(bare_machine)) == 1


@pytest.mark.parametrize(
    ("file", "text", "limit"),
    [
        pytest.param("memory.max", "max\n", None, id="no limit"),
        pytest.param("memory.max", "4294967296\n", 2**32, id="version 2"),
        pytest.param("memory/memory.limit_in_bytes", "2147483648\n", 2**31, id="version 1"),
        pytest.param("other", "", None, id="no cgroups"),
    ],
)
def test_memory_limit_is_that_of_the_container(tmp_path, file, text, limit):
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).write_text(text)
    assert cgroups.memory_limit(tmp_path) == limit


@pytest.mark.parametrize(
    ("processors", "gibibytes", "builds"),
    [
        pytest.param(2, 24, 2, id="one for each processor"),
        pytest.param(8, 7, 2, id="as far as the memory suffices"),
        pytest.param(4, 1, 1, id="one on a small machine"),
    ],
)
def test_parallel_builds_fit_into_processors_and_memory(processors, gibibytes, builds):
    assert binaries.parallel_builds(processors, gibibytes * 2**30) == builds
