"""The commands `up`, `down`, `status`, `images` and `control-plane`, each as a sequence of steps."""

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from e2e.cluster import binaries, deploy, docker
from e2e.cluster.control_plane import ControlPlane
from e2e.cluster.deploy import Helm
from e2e.cluster.existing import Existing
from e2e.cluster.files import write
from e2e.cluster.image_list import OFFLINE, PRODUCT
from e2e.cluster.images import Built, Images
from e2e.cluster.kind import Kind
from e2e.cluster.kubectl import Kubectl
from e2e.cluster.local import Local
from e2e.cluster.parts import PARTS, WITHOUT_NODE
from e2e.cluster.paths import CHECKOUT, STATE
from e2e.cluster.progress import CannotRun, ClusterError, Progress
from e2e.cluster.provider import Provider

PROVIDERS = ("existing", "kind", "local")
_USED = STATE / "provider"
CONTROL_PLANE_STATE = CHECKOUT / "build" / "control-plane"


def choose(named: str | None, environment: Mapping[str, str]) -> str:
    """Choose the provider by name, else the one in use, else kind if docker is running.

    `existing` is never a default.
    """
    asked = named or environment.get("CLUSTER")
    if asked:
        if asked not in PROVIDERS:
            raise ClusterError(f"CLUSTER is one of {', '.join(PROVIDERS)}, not {asked!r}")
        return asked
    if _USED.exists():
        return _USED.read_text()
    return "kind" if docker.answers() else "local"


def provider(name: str, progress: Progress) -> Provider:
    if _USED.exists() and _USED.read_text() != name:
        raise ClusterError(f"this checkout uses a cluster of {_USED.read_text()}; take it down first")
    if name == "existing":
        return Existing(progress)
    return Kind(progress) if name == "kind" else Local(progress)


def cluster_up(name: str, progress: Progress) -> Provider:
    """Create the cluster without the product."""
    chosen = provider(name, progress)
    STATE.mkdir(parents=True, exist_ok=True)
    write(_USED, name)
    chosen.up()
    return chosen


def load_images(chosen: Provider, progress: Progress) -> list[Built]:
    engine = chosen.engine()
    if engine is None:
        progress.say("images are pulled as published (IMAGE_LOAD_COMMAND is not set)")
        return []
    built = Images(engine, progress, local_base=chosen.local_base).build(image.name for image in PRODUCT)
    chosen.load(built)
    return built


def helm_of(chosen: Provider, progress: Progress) -> Helm:
    return Helm(binaries.ensure(["helm"], progress)["helm"], chosen.kubectl(), STATE / "helm")


def up(name: str, progress: Progress) -> None:
    chosen = cluster_up(name, progress)
    built = load_images(chosen, progress)
    helm = helm_of(chosen, progress)
    deploy.install(helm, chosen=deploy.values(built))
    progress.say("operator running")
    image = next((each.pinned for each in built if each.image is OFFLINE), OFFLINE.reference)
    try_quickstart(helm.kubectl, image, progress)
    binaries.tidy(progress)


def try_quickstart(kubectl: Kubectl, image: str, progress: Progress) -> None:
    """Apply the quickstart, send one message, and print the answer and what to try next.

    Args: `image` has the project's CLI, for the pod that sends the message.
    """
    deploy.quickstart(kubectl, progress)
    progress.say("agents ready")
    with deploy.client(kubectl, agent="support", image=image) as pod:
        question = "Load the refund-policy skill, then look up order A-1002."
        answer = deploy.say(kubectl, pod, agent="support", words=question)
    progress.say("one message answered")
    print(f"\n> {question}\n{answer}\n")
    print(kubectl.run("get", "agents", f"--namespace={deploy.QUICKSTART}"))
    context = f" --context {kubectl.context}" if kubectl.context else ""
    here = f"{kubectl.program} --kubeconfig {kubectl.kubeconfig}{context} -n {deploy.QUICKSTART}"
    print(
        f"Try next:\n  {here} describe agent support\n"
        f"  {here} get secret support-client-default -o jsonpath='{{.data.token}}' | base64 -d >/tmp/token\n"
        f"  {here} port-forward svc/support 8070:80 &\n"
        "  .venv/bin/fleetwright say --url http://127.0.0.1:8070 --token-file /tmp/token 'Look up order A-1001.'\n"
        "  make down"
    )


def down(name: str, progress: Progress) -> None:
    if not STATE.exists():
        progress.say("there is nothing to take down")
        return
    chosen = provider(name, progress)
    if name == "existing":
        deploy.uninstall(helm_of(chosen, progress), progress)
    chosen.down()
    shutil.rmtree(STATE, ignore_errors=True)
    progress.say(f"{name}: nothing is left")


def status(name: str, progress: Progress) -> None:
    print("\n".join(provider(name, progress).status()))


def images(name: str, names: list[str], progress: Progress) -> None:
    chosen = provider(name, progress)
    engine = chosen.engine()
    if engine is None:
        raise ClusterError("this provider pulls images; set IMAGE_LOAD_COMMAND to build them")
    made = Images(engine, progress, local_base=chosen.local_base)
    for built in made.build(names or (image.name for image in PRODUCT)):
        print(f"{built.pinned}\t{made.compressed_size(built) / 1e6:.1f} MB compressed")


def control_plane_up(progress: Progress) -> None:
    plane = ControlPlane(CONTROL_PLANE_STATE, progress=progress)
    if {"etcd", "kube-apiserver", "kube-controller-manager"} <= plane.processes.alive():
        progress.say("control plane running already")
    else:
        control_plane_down(progress)
        try:
            plane.start()
        except BaseException:
            plane.stop()
            raise
        progress.say("control plane ready")
    print(f"export KUBECONFIG={plane.kubeconfig}")


def control_plane_down(progress: Progress, *, folder: Path = CONTROL_PLANE_STATE) -> None:
    if folder.exists():
        ControlPlane(folder, progress=progress).stop()
        shutil.rmtree(folder)


def _programs_of(name: str) -> tuple[str, ...]:
    """Return the names of the parts that the tests need with this provider."""
    return {"local": tuple(PARTS), "kind": (*WITHOUT_NODE, "kind"), "existing": WITHOUT_NODE}[name]


def find_programs(names: Sequence[str], progress: Progress) -> None:
    """Print the path of each program; without names, of all that the tests need on the cluster of this machine."""
    names = names or _programs_of(choose(None, os.environ))
    obstacle = binaries.obstacle(names)
    if obstacle:
        raise CannotRun(obstacle)
    for program, path in binaries.ensure(names, progress).items():
        print(f"{program}\t{path}")
    binaries.tidy(progress)
