"""The discovered tools of an McpServer, and their comparison with the pinned tools. Pure.

The status stores the result of a probe together with the probe's inputs, so a restart repeats no probe. A failed probe
keeps the tools that were discovered before.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from fleetwright_api.spec.mcp_server import McpServerView
from fleetwright_operator.build.config.tool_access import digests, pinned_list
from fleetwright_operator.rollout.probe_result import REFUSED, UNAVAILABLE, ProbeFailure, ProbePending, ProbeReport
from fleetwright_operator.status.workload_health import WorkloadHealth

_LONGEST = 256
_MOST_TOOLS = 256
_TOO_MANY: Final = "TooManyTools"
_NAMED = 20


def has_answer(status: Mapping[str, Any], question: str) -> bool:
    """Return whether the status contains the result of a probe with the inputs in `question`."""
    return bool(status.get("discovery", {}).get("question") == question)


def has_failed(status: Mapping[str, Any]) -> bool:
    return "failure" in status.get("discovery", {})


def discovery_status(server: McpServerView, question: str, answer: ProbeReport | ProbeFailure) -> dict[str, Any]:
    """Return the part of the status that a probe's result changes. A failure keeps the tools discovered before."""
    about = {"question": question, "generation": server.generation}
    facts = answer if isinstance(answer, ProbeFailure) else _facts(answer.document)
    if isinstance(facts, ProbeFailure):
        failure = {"reason": facts.reason, "message": facts.message}
        return {"discovery": {**about, "failure": failure}, "pinned": pinned_list(server)}
    return {"discovery": about, **facts, "pinned": pinned_list(replace(server, status={**server.status, **facts}))}


def discovery_health(server: McpServerView) -> WorkloadHealth:
    """Return the server's health according to the discovery of its tools.

    If the operator runs the server, the caller has already checked the health of the server's pod.
    """
    status = server.status
    if "discovery" not in status:
        return WorkloadHealth(None, "NotObserved", "its tools are being discovered")
    if failure := status["discovery"].get("failure"):
        if failure["reason"] in {REFUSED, UNAVAILABLE}:
            return WorkloadHealth(False, "Unreachable", failure["message"])
        if failure["reason"] == _TOO_MANY:
            return WorkloadHealth(False, _TOO_MANY, failure["message"])
        return WorkloadHealth(None, "ProbeFailed", f"its tools could not be discovered: {failure['message']}")
    if changed := drift(server):
        return WorkloadHealth(False, "ToolsChanged", changed)
    return WorkloadHealth(True, "Discovered", f"{len(status['tools'])} tools")


def pending_health(server: McpServerView, pending: ProbePending) -> WorkloadHealth | None:
    """Return the health while a probe is pending; None if this generation of the spec was probed before."""
    if server.status.get("discovery", {}).get("generation") == server.generation:
        return None
    why = f"; the probe does not run: {pending.why.message}" if pending.why else ""
    return WorkloadHealth(None, "NotObserved", f"its tools are being discovered{why}")


def awaits_pin(server: McpServerView) -> bool:
    """Return whether the server has a pin and its tools are not known yet."""
    return server.spec.tool_policy.pin is not None and "toolsDigest" not in server.status


def drift(server: McpServerView) -> str | None:
    """Describe how the tools differ from the pinned ones; None if they do not."""
    pin, status = server.spec.tool_policy.pin, server.status
    now = status.get("toolsDigest")
    if pin is None or now is None or now == pin:
        return None
    remedy = f"set toolPolicy.pin to {now} if the change is intended"
    before = pinned_list(server)
    if before is None:
        return f"the digest of the tools differs from toolPolicy.pin, and the pinned list was never observed; {remedy}"
    return f"the tools differ from the pinned ones: {_differences(before['tools'], status['tools'])}; {remedy}"


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


def _facts(document: Mapping[str, Any]) -> dict[str, Any] | ProbeFailure:
    """Read a report. The operator's image wrote it, but its content comes from an untrusted server."""
    odd = ProbeFailure("NoReport", "the probe's report does not have the expected format")
    info, tools, whole = document.get("serverInfo"), document.get("tools"), document.get("toolsDigest")
    if not isinstance(info, Mapping) or not isinstance(tools, list) or not isinstance(whole, str):
        return odd
    offered = document.get("offered", len(tools))
    if not isinstance(offered, int) or not all(isinstance(tool, Mapping) for tool in tools):
        return odd
    if (number := max(offered, len(tools))) > _MOST_TOOLS:
        remedy = "offer fewer tools, or divide them among several servers"
        return ProbeFailure(
            _TOO_MANY, f"the server offers {number} tools, and at most {_MOST_TOOLS} are supported; {remedy}"
        )
    return {
        "serverInfo": {key: str(info.get(key, ""))[:_LONGEST] for key in ("name", "version", "protocolVersion")},
        "tools": [{key: str(tool.get(key, ""))[:_LONGEST] for key in ("name", "digest")} for tool in tools],
        "toolsDigest": whole[:_LONGEST],
    }
