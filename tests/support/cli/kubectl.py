"""A program in the place of kubectl: it answers from files, opens tunnels to a local agent, and runs its commands."""

import base64
import json
import os
import sys
from pathlib import Path

from tests.support.cli.fleet import Fleet, environment

_PROGRAM = """\
#!{python}
import json, os, subprocess, sys, time
from pathlib import Path
sys.path.insert(0, {root!r})
here = Path({here!r})
words = sys.argv[1:]
with (here / "calls").open("a") as calls:
    calls.write(" ".join(words) + "\\n")
if "port-forward" in words:
    if (here / "refuse").exists():
        sys.exit("error: unable to forward port because pod is not running")
    from tests.support.cli.cut_proxy import CutProxy
    proxy = CutProxy(os.environ["TARGET"])
    print(f"Forwarding from 127.0.0.1:{{proxy.url.rpartition(':')[2]}} -> 7870", flush=True)
    (here / "tunnel").write_text(str(os.getpid()))
    proxy._thread.join()
if "exec" in words:
    program, *arguments = words[words.index("--") + 1 :]
    assert program == "fleetwright-agent", program
    command = [sys.executable, "-m", "fleetwright_agent", *arguments, "--root", os.environ["AGENT_ROOT"]]
    ended = subprocess.run(command)
    if ended.returncode:
        print(f"command terminated with exit code {{ended.returncode}}", file=sys.stderr)
    sys.exit(ended.returncode)
if "logs" in words:
    kind = "follow" if "--follow" in words else "previous" if "--previous" in words else "logs"
    path = here / f"{{words[words.index('logs') + 1]}}.{{kind}}"
    if not path.exists():
        sys.exit("Error from server (NotFound): the log is gone")
    print(path.read_text(), end="", flush=True)
    while kind == "follow":
        time.sleep(3600)
    sys.exit()
name = next((word for word in ("config", "version") if word in words), None) or words[words.index("get") + 1]
refused = here / "-".join([name, *words[words.index(name) + 1 :][:1], "forbidden"])
if refused.exists():
    sys.exit(f"Error from server (Forbidden): {{refused.name}}")
path = here / f"{{name}}.json"
if path.exists():
    document = json.loads(path.read_text())
    if "items" in document:
        from tests.support.cli.selection import is_selected
        document["items"] = [item for item in document["items"] if is_selected(item, words)]
    sys.exit(print(json.dumps(document)))
if name == "config":
    sys.exit("error: current-context must exist in order to minify")
if (here / f"{{name}}.error").exists():
    sys.exit((here / f"{{name}}.error").read_text())
if (here / "missing").exists():
    sys.exit(f"Error from server (NotFound): {{name}} not found")
sys.exit(f"Error from server (Forbidden): {{name}} is forbidden")
"""


def install_kubectl(fleet: Fleet, folder: Path) -> None:
    """Write the program to `bin/kubectl`, and the objects of a cluster with the agent `desk`."""
    program = folder / "bin" / "kubectl"
    program.parent.mkdir()
    root = str(Path(__file__).parents[3])
    program.write_text(_PROGRAM.format(python=sys.executable, root=root, here=str(folder)))
    program.chmod(0o755)
    contexts = [{"name": "c", "context": {"namespace": "team"}}]
    (folder / "config.json").write_text(json.dumps({"current-context": "c", "contexts": contexts}))
    token = base64.b64encode(fleet.address["token"].encode()).decode()
    (folder / "secret.json").write_text(json.dumps({"metadata": {"name": "s"}, "data": {"token": token}}))
    status = {"conditions": [{"type": "Ready", "status": "True"}]}
    (folder / "pods.json").write_text(json.dumps({"items": [{"metadata": {"name": "desk-1"}, "status": status}]}))


def with_kubectl(fleet: Fleet, folder: Path, **changes: str) -> dict[str, str]:
    """Return an environment in which the program is kubectl."""
    path = f"{folder / 'bin'}:{os.environ['PATH']}"
    return environment(fleet.home, PATH=path, TARGET=fleet.address["url"], **changes)
