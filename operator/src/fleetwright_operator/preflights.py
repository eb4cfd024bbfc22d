"""Whether a revision must be proven before it may serve, and what its preflight pod has shown. Pure."""

from dataclasses import dataclass

from fleetwright_operator import names
from fleetwright_operator.cluster.entry import Entry
from fleetwright_operator.desired.deployment import CONTAINER
from fleetwright_operator.probes import Failure, unreported
from fleetwright_operator.rollout import pod_causes

TRYING = "Preflight"
FAILED = "PreflightFailed"
REASONS = {TRYING, FAILED}
"""Of `Programmed`; what ends them is an event of the pod or of what the agent refers to."""


@dataclass(frozen=True, slots=True)
class Pending:
    """Not shown yet; `why` says what keeps the pod from running, where something does."""

    why: str = ""


@dataclass(frozen=True, slots=True)
class Proven:
    """The program ended well, or serves."""


Verdict = Pending | Proven | Failure


def must_be_proven(deployment: Entry | None, *, template: str, suspended: bool) -> bool:
    """Whether something serves that another template would replace. `template` is the hash of the wanted one."""
    if deployment is None or suspended or not deployment.facts["status"].get("availableReplicas"):
        return False
    # A Deployment of an operator that wrote no such hash tells nothing.
    return deployment.annotations.get(names.TEMPLATE_ANNOTATION, template) != template


def verdict(pod: Entry | None) -> Verdict:
    if pod is None:
        return Pending()
    if _is_ready(pod):
        return Proven()
    said = unreported(pod)
    if said is None:
        return Proven()
    if isinstance(said, Failure):
        return said
    cause = next(pod_causes(pod), None)
    return Pending(cause.message if cause else "")


def is_running_preflight(pod: Entry) -> bool:
    """Counts against how many revisions are replaced at a time."""
    about_an_agent = pod.is_probe and names.probed_label(names.AGENT) in pod.labels
    return pod.kind == "Pod" and about_an_agent and pod.facts.get("phase") not in {"Succeeded", "Failed"}


def _is_ready(pod: Entry) -> bool:
    statuses = pod.facts.get("containerStatuses", ())
    return any(status.get("name") == CONTAINER and status.get("ready") for status in statuses)
