"""Every command says in the same way that no cluster is configured."""

from pathlib import Path

import pytest
from tests.support.cli.dev_run import run_fleetwright
from tests.support.cli.fleet import environment

from fleetwright_cli.no_cluster import NO_CLUSTER, explained
from fleetwright_cli.terminal.transport.errors import AgentUnreachable, ClusterNotConfigured
from fleetwright_cli.terminal.transport.kubectl import kubectl_json

KUBECTL = """\
#!/bin/sh
case "$*" in
*"config view"*) echo "error: current-context must exist in order to minify" >&2 ;;
*) echo "The connection to the server localhost:8080 was refused - did you specify the right host or port?" >&2 ;;
esac
exit 1
"""
ELSEWHERE = "; without a cluster, start a fleet with `fleetwright dev`, or give --url and --token-file"


@pytest.mark.process
@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        pytest.param(["agents"], NO_CLUSTER, id="agents"),
        pytest.param(["approvals"], NO_CLUSTER, id="approvals"),
        pytest.param(["team", "tree"], NO_CLUSTER, id="team"),
        pytest.param(["delegations", "desk"], NO_CLUSTER, id="delegations"),
        pytest.param(["cost"], NO_CLUSTER, id="cost"),
        pytest.param(["audit", "verify", "desk"], NO_CLUSTER, id="audit"),
        pytest.param(["memory", "export", "--owner", "client:a", "desk"], NO_CLUSTER, id="memory"),
        pytest.param(["report"], NO_CLUSTER, id="report"),
        pytest.param(["tasks", "desk"], NO_CLUSTER, id="tasks"),
        pytest.param(["tasks", "desk", "--client", "a"], f"{NO_CLUSTER}{ELSEWHERE}", id="tasks of a client"),
    ],
)
def test_commands_without_a_kubeconfig_say_the_same(tmp_path: Path, words, wanted) -> None:
    program = tmp_path / "bin/kubectl"
    program.parent.mkdir()
    program.write_text(KUBECTL)
    program.chmod(0o755)
    changes = {
        "PATH": f"{program.parent}:/usr/bin:/bin",
        "KUBECONFIG": str(tmp_path / "missing"),
        "HOME": str(tmp_path),
    }
    ended = run_fleetwright(*words, environment=environment(tmp_path, **changes))
    assert (ended.returncode, ended.stderr.strip()) == (1, f"Error: {wanted}")


@pytest.mark.parametrize(
    ("message", "wanted"),
    [
        pytest.param("Invalid kube-config file. No configuration found.", NO_CLUSTER, id="no file"),
        pytest.param(
            "Invalid kube-config file. Expected key current-context in kube-config", NO_CLUSTER, id="no context"
        ),
        pytest.param(
            "Expected object with name x in contexts list.",
            "Expected object with name x in contexts list; set KUBECONFIG, or give --context",
            id="an unknown context",
        ),
    ],
)
def test_explanation_keeps_other_problems(message, wanted):
    assert explained(message) == wanted


@pytest.mark.process
@pytest.mark.parametrize(
    ("options", "current", "error"),
    [
        pytest.param((), "exit 1", ClusterNotConfigured, id="no context"),
        pytest.param((), "echo local", AgentUnreachable, id="a cluster at this address"),
        pytest.param(("--context", "local"), "exit 1", AgentUnreachable, id="a context of the command line"),
    ],
)
async def test_refused_connection_without_a_context_means_no_cluster(tmp_path, options, current, error):
    program = tmp_path / "kubectl"
    program.write_text(
        "#!/bin/sh\n"
        f'case "$*" in "config current-context") {current}; exit ;; esac\n'
        'echo "The connection to the server localhost:8080 was refused - did you specify the right host?" >&2\nexit 1\n'
    )
    program.chmod(0o755)
    with pytest.raises(error, match=NO_CLUSTER if error is ClusterNotConfigured else "localhost:8080 was refused"):
        await kubectl_json(str(program), (*options, "get", "pods"))
