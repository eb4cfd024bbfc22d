"""The typed views of cached objects. The cache parses an object once for each of its versions."""

from fleetwright_api.spec.agent import AgentView
from fleetwright_api.spec.approval import ApprovalView
from fleetwright_api.spec.custom_object import CustomObject
from fleetwright_api.spec.mcp_server import McpServerView
from fleetwright_api.spec.skill import SkillView
from fleetwright_kube.cached_object import CachedObject

VIEW = "view"
"""The key of the view in a projection."""


def view_of(entry: CachedObject) -> CustomObject:
    view: CustomObject = entry.projection[VIEW]
    return view


def agent_of(entry: CachedObject) -> AgentView:
    view: AgentView = entry.projection[VIEW]
    return view


def skill_of(entry: CachedObject) -> SkillView:
    view: SkillView = entry.projection[VIEW]
    return view


def approval_of(entry: CachedObject) -> ApprovalView:
    view: ApprovalView = entry.projection[VIEW]
    return view


def server_of(entry: CachedObject) -> McpServerView:
    view: McpServerView = entry.projection[VIEW]
    return view
