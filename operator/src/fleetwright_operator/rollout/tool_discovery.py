"""What is known of an McpServer's tools, and what its pin means for the agents that use it. Pure.

The status keeps what a probe said, with the question it answered: so a restart asks nothing again. A failure is kept
as well, beside the tools that were seen before it.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from fleetwright_operator.build.config.tool_access import digests, pinned_list, policy
from fleetwright_operator.rollout.probe_result import Failure, Pending, Report
from fleetwright_operator.status.workload_health import Health

_LONGEST = 256
_MOST_TOOLS = 256
_TOO_MANY = "TooManyTools"
_NAMED = 20


def answered(status: Mapping[str, Any], question: str) -> bool:
    """Whether the status holds the answer to this very question."""
    return bool(status.get("discovery", {}).get("question") == question)


def has_failed(status: Mapping[str, Any]) -> bool:
    return "failure" in status.get("discovery", {})


def discovered(server: Mapping[str, Any], question: str, answer: Report | Failure) -> dict[str, Any]:
    """The part of the status that a probe's answer makes; what a failure does not tell stays as it was."""
    about = {"question": question, "generation": server["metadata"]["generation"]}
    facts = answer if isinstance(answer, Failure) else _facts(answer.document)
    if isinstance(facts, Failure):
        failure = {"reason": facts.reason, "message": facts.message}
        return {"discovery": {**about, "failure": failure}, "pinned": pinned_list(server)}
    return {"discovery": about, **facts, "pinned": pinned_list({**server, "status": {**server["status"], **facts}})}


def discovery_health(server: Mapping[str, Any]) -> Health:
    """What `Available` says of a server whose process, if it is ours, runs well."""
    status = server["status"]
    if "discovery" not in status:
        return Health(None, "NotObserved", "its tools are being looked at")
    if failure := status["discovery"].get("failure"):
        if failure["reason"] == "Refused":
            return Health(False, "Unreachable", failure["message"])
        if failure["reason"] == _TOO_MANY:
            return Health(False, _TOO_MANY, failure["message"])
        return Health(None, "ProbeFailed", f"its tools could not be looked at: {failure['message']}")
    if changed := drift(server):
        return Health(False, "ToolsChanged", changed)
    return Health(True, "Discovered", f"{len(status['tools'])} tools")


def pending_health(server: Mapping[str, Any], pending: Pending) -> Health | None:
    """What is said while a probe is on its way; nothing new where the spec has been looked at before."""
    if server["status"].get("discovery", {}).get("generation") == server["metadata"]["generation"]:
        return None
    why = f"; the probe does not run: {pending.why.message}" if pending.why else ""
    return Health(None, "NotObserved", f"its tools are being looked at{why}")


def awaits_pin(server: Mapping[str, Any]) -> bool:
    """Whether it has a pin and nothing is known yet to hold against it."""
    return "pin" in policy(server) and "toolsDigest" not in server.get("status", {})


def drift(server: Mapping[str, Any]) -> str | None:
    """How the tools differ from those that were pinned, for people; nothing where they do not."""
    pin, status = policy(server).get("pin"), server.get("status", {})
    now = status.get("toolsDigest")
    if pin is None or now is None or now == pin:
        return None
    remedy = f"set toolPolicy.pin to {now} if that is right"
    before = pinned_list(server)
    if before is None:
        return f"the tools have another digest than toolPolicy.pin, whose list was never seen here: {remedy}"
    return f"the tools are not those that were pinned: {_differences(before['tools'], status['tools'])}; {remedy}"


def _differences(before: Sequence[Mapping[str, str]], after: Sequence[Mapping[str, str]]) -> str:
    old, new = digests(before), digests(after)
    kinds = {
        "added": [name for name in new if name not in old],
        "removed": [name for name in old if name not in new],
        "changed": [name for name in new if name in old and old[name] != new[name]],
    }
    return "; ".join(f"{kind} {_some(found)}" for kind, found in kinds.items() if found) or "their order or number"


def _some(found: Sequence[str]) -> str:
    more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
    return ", ".join(sorted(found)[:_NAMED]) + more


def _facts(document: Mapping[str, Any]) -> dict[str, Any] | Failure:
    """A report was written by our own image about somebody else's server: what does not fit is no report."""
    odd = Failure("NoReport", "the probe's report is of another shape")
    info, tools, whole = document.get("serverInfo"), document.get("tools"), document.get("toolsDigest")
    if not isinstance(info, Mapping) or not isinstance(tools, list) or not isinstance(whole, str):
        return odd
    offered = document.get("offered", len(tools))
    if not isinstance(offered, int) or not all(isinstance(tool, Mapping) for tool in tools):
        return odd
    if (number := max(offered, len(tools))) > _MOST_TOOLS:
        remedy = "offer fewer, or divide them among several servers"
        return Failure(_TOO_MANY, f"the server offers {number} tools, and at most {_MOST_TOOLS} are kept: {remedy}")
    return {
        "serverInfo": {key: str(info.get(key, ""))[:_LONGEST] for key in ("name", "version", "protocolVersion")},
        "tools": [{key: str(tool.get(key, ""))[:_LONGEST] for key in ("name", "digest")} for tool in tools],
        "toolsDigest": whole[:_LONGEST],
    }
