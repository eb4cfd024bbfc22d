"""`fleetwright dev` as its user runs it: it starts a fleet from a folder and reports mistakes clearly."""

import contextlib
import os
import re
import shutil
import signal
import socket
import sys
import threading
from decimal import Decimal
from pathlib import Path

import httpx
import pytest
from e2e.cluster.ports import free_port
from tests.support.cli.dev_run import run_dev, run_fleetwright
from tests.support.machine import ceiling
from tests.support.waiting import wait_until

from fleetwright_agent.config.layout import Layout
from fleetwright_agent.config.mounted_files import load
from fleetwright_agent.server.push.encryption import parse_keys
from fleetwright_api.model_catalog import Catalog
from fleetwright_api.spec.agent import parse_agent
from fleetwright_api.spec.encoder import encode
from fleetwright_api.spec.mcp_server import McpServerSpec, RemoteServerSpec, WorkloadSpec
from fleetwright_cli.dev.conversation import Reply, total
from fleetwright_cli.dev.hosts import declared_hosts, without_declared_hosts
from fleetwright_cli.dev.layout import Ports, agent_files, read_skills, token_names
from fleetwright_cli.dev.manifests import InvalidFleet, read_fleet
from fleetwright_cli.dev.processes import Processes
from fleetwright_cli.dev.provider import SubstituteProvider, provider_from, substitutions, with_provider

pytestmark = pytest.mark.starts_first

ROOT = Path(__file__).parents[2]
QUICKSTART = ROOT / "examples/quickstart"
AGENT = """\
apiVersion: fleetwright.dev/v1alpha1
kind: Agent
metadata: {name: desk}
spec:
  instructions: You are the desk.
  model: {name: offline}
"""


# With a provider, a run starts no offline model.
PROVIDER = {"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": "http://127.0.0.1:9/v1"}


def _environ(**changes: str) -> dict[str, str]:
    inherited = {key: value for key, value in os.environ.items() if not key.startswith("OPENAI_")}
    return inherited | changes


def _dev(folder: Path, state: Path):
    """Run `fleetwright dev`, which ends by itself because of a mistake."""
    return run_fleetwright("dev", "-f", str(folder), "--state", str(state), environment=_environ(**PROVIDER))


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        pytest.param("kind: [", "fleet.yaml: not YAML", id="a file that is not YAML"),
        pytest.param("", "no Agent in any", id="a folder without an agent"),
        pytest.param("kind: Agent", "metadata.name are required", id="an object without a name"),
        pytest.param(
            AGENT + "  modle: {}\n", "Agent desk: spec: Additional properties are not allowed ('modle' was",
            id="a misspelt field",
        ),
        pytest.param(AGENT.replace("desk", "../../desk"), "metadata.name: use lower-case", id="a name that is a path"),
        pytest.param(AGENT.replace("v1alpha1", "v2"), "apiVersion must be", id="another version"),
        pytest.param(f"{AGENT}---\n{AGENT}", "second Agent named 'desk'", id="a name given twice"),
        pytest.param(
            AGENT.replace("instructions: You are the desk.", "instructions: 7"), "spec.instructions: 7 is not",
            id="a field of another type",
        ),
    ],
)  # fmt: skip
def test_read_fleet_names_the_file_and_field_of_an_error(tmp_path, text, wanted):
    (tmp_path / "fleet.yaml").write_text(text)
    with pytest.raises(InvalidFleet, match=_literally(wanted)):
        read_fleet(tmp_path, namespace="dev")


def _literally(text: str) -> str:
    return re.escape(text)


@pytest.mark.process
@pytest.mark.parametrize(
    ("reference", "wanted"),
    [
        pytest.param(
            'memory: {}\n  limits: {maxTurnSeconds: 5}\n  compaction: {trigger: {contextFraction: "7"}}',
            "compaction.trigger.contextFraction: Input should be less",
            id="a value the runtime refuses",
        ),
        pytest.param("skills: [{name: gone}]", "spec.skills: 'gone' is not in this folder", id="a skill"),
        pytest.param("mcpServers: [{name: gone}]", "spec.mcpServers: 'gone' is not in this folder", id="a server"),
        pytest.param("peers: [{name: gone}]", "spec.peers: 'gone' is not in this folder", id="a peer"),
    ],
)
def test_dev_exits_with_the_name_of_an_invalid_reference(tmp_path, reference, wanted):
    (tmp_path / "fleet.yaml").write_text(f"{AGENT}  {reference}\n")
    ended = _dev(tmp_path, tmp_path / "state")
    assert ended.returncode == 1
    assert wanted in ended.stderr
    assert "Traceback" not in ended.stderr


SKILL_OF_FILES = """\
apiVersion: fleetwright.dev/v1alpha1
kind: Skill
metadata: {name: prose}
spec: {source: {configMap: {name: files}}}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: files}
data:
  SKILL.md: "---\\nname: prose\\ndescription: Writes.\\n---\\nWrite well.\\n"
  references..form.md: Five lines.
"""


def test_config_map_skill_keeps_its_folders(tmp_path):
    (tmp_path / "fleet.yaml").write_text(f"{AGENT}---\n{SKILL_OF_FILES}")
    skills = read_skills(read_fleet(tmp_path, namespace="dev"))
    assert set(skills["prose"].files) == {"SKILL.md", "references/form.md"}


@pytest.mark.process
def test_config_map_skill_with_binary_data_is_refused(tmp_path):
    (tmp_path / "fleet.yaml").write_text(f"{AGENT}---\n{SKILL_OF_FILES}binaryData: {{assets..logo.png: iVBORw==}}\n")
    ended = _dev(tmp_path, tmp_path / "state")
    assert ended.returncode == 1
    assert "Skill prose: 'assets/logo.png' is binary data of its ConfigMap" in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.process
def test_dev_names_a_server_that_it_cannot_run(tmp_path):
    server = AGENT.replace("Agent", "McpServer").split("spec:")[0].replace("desk", "tools")
    (tmp_path / "fleet.yaml").write_text(f"{AGENT}---\n{server}spec: {{workload: {{image: a/b:1}}}}\n")
    ended = _dev(tmp_path, tmp_path / "state")
    assert ended.returncode == 1
    assert "McpServer tools: spec.workload.command" in ended.stderr
    assert "Traceback" not in ended.stderr


HEAD_OF_TOOLS = AGENT.replace("Agent", "McpServer").split("spec:")[0].replace("desk", "tools")


@pytest.mark.process
def test_dev_refuses_servers_that_need_a_secret_before_start(tmp_path):
    header = "headersFrom: [{name: Authorization, secretKeyRef: {name: weather, key: bearer}}]"
    spec = f"spec: {{remote: {{url: 'https://x.example/mcp', {header}}}}}"
    (tmp_path / "fleet.yaml").write_text(f"{AGENT}  mcpServers: [{{name: tools}}]\n---\n{HEAD_OF_TOOLS}{spec}\n")
    ended = _dev(tmp_path, tmp_path / "state")
    assert ended.returncode == 1
    assert "McpServer tools: spec.remote.headersFrom: a local run has no Secrets" in ended.stderr


def test_provider_key_selects_the_real_provider():
    real = provider_from({"OPENAI_API_KEY": "k", "OPENAI_MODEL": "m"}, offline_url="http://o")
    assert (real.model, real.offline) == ("m", False)
    assert "k" not in repr(real)
    assert provider_from({}, offline_url="http://o") == SubstituteProvider("http://o")


PRICE = {"inputPerMillion": "1", "outputPerMillion": "2"}


def parsed(spec):
    return parse_agent({"metadata": {"name": "desk", "namespace": "dev"}, "spec": spec}).spec


def test_provider_substitution_drops_the_price_of_another_model():
    declared = parsed({"model": {"name": "x", "price": PRICE, "baseURL": "http://gone"}})
    model = encode(with_provider(declared, SubstituteProvider("http://real", "m", "k")).model)
    assert model == {"name": "m", "baseURL": "http://real", "apiKeySecretRef": {"name": "provider"}}


def test_total_sums_a_counter_over_the_given_labels():
    found = {("m", (("a", "1"), ("b", "1"))): 2.0, ("m", (("a", "1"), ("b", "2"))): 3.0, ("n", ()): 9.0}
    assert total(found, 'm{a="1"}') == 5
    assert total(found, 'm{a="1",b="2"}') == 3
    assert total(found, "n") == 9


STDIO_SERVER = f"""\
apiVersion: fleetwright.dev/v1alpha1
kind: McpServer
metadata: {{name: tools}}
spec:
  workload:
    image: x
    transport: Stdio
    command: ["{sys.executable}", "-c", "from mcp.server.fastmcp import FastMCP; FastMCP('tools').run()"]
"""


@pytest.fixture(scope="module")
def quickstart(process_ring: None, tmp_path_factory):
    """Run `fleetwright dev` on a copy of the quickstart with a stdio server, as its user starts it.

    The tests of this module share the run. Each counts what the fleet does from its own beginning.
    """
    root = tmp_path_factory.mktemp("quickstart")
    shutil.copytree(QUICKSTART, root / "fleet")
    (root / "fleet/tools.yaml").write_text(STDIO_SERVER)
    place = {"state": root / "state", "log": root / "output"}
    with run_dev(root / "fleet", **place, environment=_environ(), as_command=True) as run:
        yield run


def test_dev_runs_a_stdio_server_behind_the_bridge(quickstart):
    found = re.search(r"bridge .*--port (\d+)", quickstart.output())
    assert found, quickstart.output()
    params = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    answer = httpx.post(
        f"http://127.0.0.1:{found[1]}/mcp",
        json={"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params},
        headers={"Accept": "application/json, text/event-stream"},
        timeout=ceiling(),
        trust_env=False,
    )
    assert answer.status_code == 200
    assert re.search(r'"serverInfo":\s*{"name":\s*"tools"', answer.text), answer.text


@pytest.mark.process
@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        pytest.param(["--state", "{tmp}", "desk", "Hi"], "no fleet runs in", id="no fleet"),
        pytest.param(["--url", "http://127.0.0.1:9", "--token-file", "{tmp}/t", "Hi"], "no connection to", id="nobody"),
        pytest.param(["Hi"], "give --state DIR AGENT TEXT", id="no address"),
    ],
)
def test_say_reports_an_unreachable_agent_without_traceback(tmp_path, words, wanted):
    (tmp_path / "t").write_text("x")
    placed = (word.replace("{tmp}", str(tmp_path)) for word in words)
    ended = run_fleetwright("say", *placed, environment=_environ())
    assert ended.returncode != 0
    assert wanted in ended.stderr
    assert "Traceback" not in ended.stderr


SERVER = """\
---
apiVersion: fleetwright.dev/v1alpha1
kind: McpServer
metadata: {name: tools}
spec: {workload: {image: x, port: 8000, command: [%s]}}
"""


@pytest.mark.process
@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        pytest.param(AGENT + SERVER % "no-such-program", "no-such-program cannot be started", id="a missing program"),
        pytest.param(AGENT.replace("{name: desk}", "{}"), "metadata.name are required", id="no name"),
        pytest.param(AGENT.encode() + b"# \xff", "fleet.yaml: cannot be read", id="not text"),
    ],
)
def test_dev_reports_start_errors_without_traceback(tmp_path, text, wanted):
    (tmp_path / "fleet.yaml").write_bytes(text if isinstance(text, bytes) else text.encode())
    ended = _dev(tmp_path, tmp_path / "state")
    assert ended.returncode == 1
    assert wanted in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.process
def test_dev_names_an_unreadable_state_file(tmp_path):
    (tmp_path / "fleet.yaml").write_text(AGENT)
    (tmp_path / "state").mkdir()
    (tmp_path / "state/tokens.json").write_text('{"half')
    ended = _dev(tmp_path, tmp_path / "state")
    assert ended.returncode == 1
    assert "tokens.json" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_dev_refuses_a_second_run_on_one_state(quickstart):
    ended = _dev(quickstart.folder, quickstart.state)
    assert ended.returncode == 1
    assert "another `fleetwright dev` runs with" in ended.stderr


def test_process_that_exits_is_restarted_and_others_continue(quickstart):
    run, pid = quickstart, quickstart.process.pid
    supports, warehouses = (run.output().count(f"starting Agent {name}") for name in ("support", "warehouse"))
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    (victim,) = [pid for pid in children if "agents/warehouse" in Path(f"/proc/{pid}/cmdline").read_text()]
    os.kill(int(victim), signal.SIGKILL)
    run.wait_for_output("agent-warehouse ended by itself")
    run.wait_for_output("starting Agent warehouse", times=warehouses + 1)
    run.wait_until(lambda: run.say("warehouse", "Still there?").returncode == 0, "the agent answers again")
    assert run.output().count("starting Agent support") == supports


def test_fleet_answers_reloads_its_folder_and_stops_cleanly(quickstart):
    run = quickstart
    said = run.say("support", "My parrot is called Ida.", "--context", "c1")
    assert said.returncode == 0, said.stderr
    assert "[completed;" in said.stdout
    databases = [path for path in run.state.rglob("*.db*") if path.is_file()]
    assert databases
    assert {path.stat().st_mode & 0o777 for path in databases} == {0o600}
    assert re.search(r"agent support: model \S+ .*is answered by the offline model at http://127.0.0.1", run.output())

    agents = run.folder / "agents.yaml"
    supports, warehouses = (run.output().count(f"starting Agent {name}") for name in ("support", "warehouse"))
    agents.write_text(agents.read_text().replace("You are the support desk", "You are the night desk"))
    run.wait_for_output("starting Agent support", times=supports + 1)
    run.wait_until(
        lambda: "night desk" in run.say("support", "Who are you?").stdout, "the agent has its new instructions"
    )
    assert run.output().count("starting Agent warehouse") == warehouses
    assert "(to continue: --context c1)" in said.stdout
    assert "called Ida" in run.say("support", "What is my parrot called?", "--context", "c1").stdout

    agents.write_text(agents.read_text() + "  suspend: true\n")
    run.wait_for_output("ending agent-warehouse")
    run.wait_until(
        lambda: "no agent 'warehouse'" in run.say("warehouse", "Hello").stderr, "the fleet forgets the suspended agent"
    )
    agents.write_text(agents.read_text() + "  surplus: 1\n")
    run.wait_for_output("not applied")
    assert run.say("support", "Still there?").returncode == 0
    assert "no agent 'nobody'" in run.say("nobody", "Hello").stderr


@pytest.mark.process
def test_processes_are_reached_although_a_proxy_is_set(tmp_path, monkeypatch):
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    with Processes(tmp_path) as processes:
        port = free_port()
        processes.start("server", [sys.executable, "-m", "http.server", str(port), "--bind", "127.0.0.1"])
        processes.wait_ready("server", f"http://127.0.0.1:{port}/", seconds=ceiling())


@pytest.mark.process
def test_processes_do_not_inherit_the_provider_key(tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sentinel")
    with Processes(tmp_path) as processes:
        processes.start("child", ["env"], {"PORT": "1"})
        wait_until(processes.ended, "the process ends")
    assert "PORT=1" in processes.log("child").read_text()
    assert "OPENAI" not in processes.log("child").read_text()


def test_push_agent_gets_a_key_and_may_notify_localhost(tmp_path):
    (tmp_path / "fleet.yaml").write_text(f'{AGENT}  a2a: {{push: {{allowedHosts: ["127.0.0.1:9000"]}}}}\n')
    fleet = read_fleet(tmp_path, namespace="dev")
    assert token_names(fleet) == ["client.desk.default", "push.desk"]
    (agent,) = agent_files(
        fleet,
        namespace="dev",
        ports=Ports(agents={"desk": 1}, ops={"desk": 2}, servers={}),
        provider=provider_from({}, offline_url="http://127.0.0.1:3"),
        tokens=dict.fromkeys(token_names(fleet), "k" * 43),
        catalog=Catalog(),
    )
    for path, text in agent.files.items():
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    layout = Layout(root=tmp_path)
    push = load(layout).push
    assert (push.allowed_hosts[0].host, push.allowed_hosts[0].port) == ("127.0.0.1", 9000)
    assert len(parse_keys(layout.secret(push.key_file).read_bytes())) == 1


OWN = {"name": "big", "baseURL": "https://big.example.com", "provider": "Anthropic", "apiKeySecretRef": {"name": "k"}}
OTHER = {"name": "spare", "baseURL": "https://spare.example", "contextWindow": 9000, "price": PRICE}
SMALL = {"name": "small", "contextWindow": 5000, "price": PRICE}
LINED = {"model": {**OWN, "fallbacks": [OTHER, {"name": "next"}], "auxiliary": SMALL}}
KEYED = {"apiKeySecretRef": {"name": "provider"}}


@pytest.mark.parametrize(
    ("provider", "own", "fallbacks", "auxiliary"),
    [
        pytest.param(
            SubstituteProvider("http://o"),
            {"name": "big", "baseURL": "http://o"},
            [{**OTHER, "baseURL": "http://o"}, {"name": "next", "baseURL": "http://o"}],
            SMALL,
            id="the offline model, under every name",
        ),
        pytest.param(
            SubstituteProvider("http://real", "m", "k"),
            {"name": "m", "baseURL": "http://real", **KEYED},
            [
                {"name": "m", "baseURL": "http://real", "contextWindow": 9000, **KEYED},
                {"name": "m", "baseURL": "http://real", **KEYED},
            ],
            {"name": "m", "contextWindow": 5000},
            id="a real provider",
        ),
    ],
)
def test_provider_substitution_keeps_fallbacks_and_auxiliary(provider, own, fallbacks, auxiliary):
    model = encode(with_provider(parsed(LINED), provider).model)
    assert model.pop("fallbacks") == fallbacks
    assert model.pop("auxiliary") == auxiliary
    assert model == own


def test_substitutions_describe_each_model_in_one_line():
    assert substitutions(parsed(LINED), SubstituteProvider("http://o")) == [
        "model big at https://big.example.com is answered by the offline model at http://o",
        "model.fallbacks[0] spare at https://spare.example is answered by the offline model at http://o",
        "model.fallbacks[1] next at https://big.example.com is answered by the offline model at http://o",
        "model.auxiliary small at https://big.example.com is answered by the offline model at http://o",
    ]


HELPER = {"description": "Helps.", "instructions": "Help."}
PARTS = {
    "model": OWN,
    "subAgents": [{**HELPER, "name": "scout", "model": SMALL}, {**HELPER, "name": "plain"}],
    "budgets": [{"period": "Day", "usd": "1", "downgrade": {"at": "0.5", "model": SMALL}}, {"period": "Month"}],
}


def test_provider_substitution_covers_sub_agents_and_budgets():
    spec = encode(with_provider(parsed(PARTS), SubstituteProvider("http://real", "m", "k")))
    answered = {"name": "m", "contextWindow": 5000}
    assert spec["subAgents"] == [{**HELPER, "name": "scout", "model": answered}, {**HELPER, "name": "plain"}]
    downgraded = {"period": "Day", "usd": "1", "downgrade": {"at": "0.5", "model": answered}}
    assert spec["budgets"] == [downgraded, {"period": "Month"}]
    assert substitutions(parsed(PARTS), SubstituteProvider("http://real", "m", "k")) == [
        "model big at https://big.example.com is answered by m at http://real",
        "subAgents[scout].model small at https://big.example.com is answered by m at http://real",
        "budgets[Day].downgrade.model small at https://big.example.com is answered by m at http://real",
    ]


def test_offline_substitution_keeps_sub_agent_and_budget_models():
    spec = encode(with_provider(parsed(PARTS), SubstituteProvider("http://o")))
    assert (spec["subAgents"], spec["budgets"]) == (PARTS["subAgents"], PARTS["budgets"])


class Canary(threading.Thread):
    """A server on a loopback address that counts connections and answers none."""

    def __init__(self):
        super().__init__(daemon=True)
        # 127.0.0.1 is the address of the run itself, and therefore not a declared host.
        self.listener = socket.create_server(("127.0.0.2", 0))
        self.port = self.listener.getsockname()[1]
        self.connections = 0

    def run(self):
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self.listener.accept()
                self.connections += 1
                connection.close()


@pytest.fixture
def canary():
    made = Canary()
    made.start()
    yield made
    made.listener.shutdown(socket.SHUT_RDWR)
    made.listener.close()
    made.join(ceiling())


@pytest.mark.process
@pytest.mark.parametrize(
    "contacts",
    [pytest.param(False, id="by default"), pytest.param(True, id="with the flag", marks=pytest.mark.exhaustive)],
)
def test_declared_hosts_are_contacted_only_with_the_flag(tmp_path, canary, contacts):
    url = f"http://127.0.0.2:{canary.port}"
    fallback = f"fallbacks: [{{name: spare, baseURL: '{url}/v1'}}]"
    model = f"model: {{name: offline, baseURL: '{url}/v1', {fallback}, auxiliary: {{name: small}}}}"
    parts = f"mcpServers: [{{name: tools}}]\n  telemetry: {{otlp: {{endpoint: '{url}'}}}}"
    agent = AGENT.replace("model: {name: offline}", f"{model}\n  {parts}")
    (tmp_path / "fleet.yaml").write_text(f"{agent}---\n{HEAD_OF_TOOLS}spec: {{remote: {{url: '{url}/mcp'}}}}\n")
    flag = ["--contact-declared-hosts"] if contacts else []
    place = {"state": tmp_path / "state", "log": tmp_path / "output"}
    with run_dev(tmp_path, *flag, **place, environment=_environ()) as run:
        said = run.say("desk", "Hello")
        assert "[completed;" in said.stdout, said.stderr + run.output()
    assert (canary.connections > 0) is contacts
    left_out = f"agent desk: {{}} is left out: --contact-declared-hosts connects to {url}"
    for field in ("mcpServers[tools]", "telemetry"):
        assert (left_out.format(field) in run.output()) is not contacts


@pytest.mark.process
def test_dev_runs_no_module_of_the_current_folder(tmp_path):
    """Python searches modules in the current folder first, and `dev` starts programs with `python -m`."""
    current, trace = tmp_path / "current", tmp_path / "trace"
    current.mkdir()
    for name in ("uvicorn", "fleetwright_agent", "fleetwright_cli", "sitecustomize", "usercustomize", "httpx", "yaml"):
        (current / f"{name}.py").write_text(f"open({str(trace)!r}, 'w')")
    fleet = tmp_path / "fleet"
    fleet.mkdir()
    (fleet / "desk.yaml").write_text(AGENT)
    place = {"state": tmp_path / "state", "log": tmp_path / "output", "current": current}
    with run_dev(fleet, **place, environment=_environ(), as_command=True) as run:
        assert "[completed;" in run.say("desk", "Hello").stdout
    assert not trace.exists()


@pytest.mark.process
def test_dev_calls_a_server_with_a_proxy_directly(tmp_path, canary):
    remote = f"{{url: 'http://127.0.0.2:{canary.port}/mcp', proxyURL: 'http://127.0.0.1:9'}}"
    agent = f"{AGENT}  mcpServers: [{{name: tools}}]\n"
    (tmp_path / "fleet.yaml").write_text(f"{agent}---\n{HEAD_OF_TOOLS}spec: {{remote: {remote}}}\n")
    place = {"state": tmp_path / "state", "log": tmp_path / "output"}
    with run_dev(tmp_path, "--contact-declared-hosts", **place, environment=_environ()) as run:
        wait_until(lambda: canary.connections, "the agent connects to the server", shown=run.output)
    assert "agent desk: mcpServers[tools] is called directly: a local run does not use its proxyURL" in run.output()


def test_declared_hosts_are_listed_and_removed():
    servers = {
        "away": McpServerSpec(remote=RemoteServerSpec(url="https://tools.example.com/mcp")),
        "near": McpServerSpec(remote=RemoteServerSpec(url="http://127.0.0.1:9/mcp")),
        "own": McpServerSpec(workload=WorkloadSpec(image="a/b:1")),
    }
    uses = [{"name": name} for name in servers]
    spec = parsed({"mcpServers": uses, "telemetry": {"otlp": {"endpoint": "https://traces.example.com"}}})
    assert declared_hosts(spec, servers) == {
        "mcpServers[away]": "https://tools.example.com/mcp",
        "telemetry": "https://traces.example.com",
    }
    left = without_declared_hosts(spec, servers)
    assert encode(left) == {"mcpServers": [{"name": "near"}, {"name": "own"}]}


@pytest.mark.parametrize(
    ("tokens", "cost", "said"),
    [
        pytest.param((3, 4), Decimal("0.5"), "3 tokens in, 4 out, 0.5 USD", id="a price"),
        pytest.param((3, 4), None, "3 tokens in, 4 out, no price", id="no price"),
        pytest.param((0, 0), None, "0 tokens in, 0 out, no cost", id="nothing used"),
    ],
)
def test_reply_distinguishes_no_price_from_no_cost(tokens, cost, said):
    reply = Reply(state="completed", text="", input_tokens=tokens[0], output_tokens=tokens[1], cost_usd=cost)
    assert reply.spent == f"completed; {said}"
