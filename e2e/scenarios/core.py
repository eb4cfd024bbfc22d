"""The core scenarios: each tests, on a real node, a sentence of README.md or SECURITY.md that no faster test covers.

`make test-cluster` runs these. `make test-all` runs every scenario: the others repeat promises that faster tests cover,
or test behaviour that no document promises.
"""

CORE = {
    "test_approvals.py::test_person_decides_with_kubectl_patch_and_the_task_continues": (
        "creates an `Approval` for a tool call that waits for the decision of a person"
    ),
    "test_callers.py::test_agent_egress_denies_undeclared_destinations": (
        "a NetworkPolicy denies all ingress and egress, and allows only the connections that the objects name"
    ),
    "test_callers.py::test_agent_ingress_denies_pods_that_are_not_callers": (
        "a NetworkPolicy that allows only the connections that the objects name"
    ),
    "test_callers.py::test_agent_pod_has_no_kubernetes_api_credential": (
        "no service account token that the API server accepts"
    ),
    "test_callers.py::test_peer_refuses_an_agent_that_is_not_an_allowed_caller": (
        "a token for each client and each pair of agents, and a NetworkPolicy"
    ),
    "test_changes.py::test_failing_revision_never_replaces_the_serving_one": (
        "A new revision first passes a preflight in a separate pod"
    ),
    "test_conversations.py::test_killed_pod_keeps_finished_and_resumes_running_tasks": (
        "all state is in the Kubernetes API and on each agent's volume"
    ),
    "test_conversations.py::test_running_task_finishes_before_the_next_revision_serves": (
        "drain for `drainSeconds`, then resume in the next pod"
    ),
    "test_fleet.py::test_gateway_pods_reach_agents_and_no_other_pods": (
        "its pods connect only to agents and to the ports of the API server"
    ),
    "test_fleet.py::test_only_a_person_with_the_right_to_invoke_sees_and_wakes_the_agent": (
        "Idle agents sleep without a pod, and a message wakes them."
    ),
    "test_fleet.py::test_withdrawn_edge_is_refused_although_the_token_is_valid": (
        "For direct calls, the called agent refuses the caller's unexpired tokens within two seconds"
    ),
    "test_prometheus.py::test_metrics_attribute_compactions_and_cost_to_each_agent": (
        "Prometheus counters for tokens, cost, tools and compactions"
    ),
    "test_prometheus.py::test_metrics_endpoint_is_reachable_by_monitoring_only": (
        "allows only the connections that the objects name"
    ),
    "test_quickstart.py::test_mcp_server_ingress_denies_pods_that_are_not_its_agents": (
        "NetworkPolicies protect agents and McpServers."
    ),
    "test_quickstart.py::test_message_is_answered_with_a_skill_a_tool_and_its_cost": (
        "An operator turns each Agent into a running pod"
    ),
    "test_quickstart.py::test_objects_show_the_state_and_the_reason_for_each_connection": (
        "the objects show the state and the reason for each open connection"
    ),
    "test_rotation.py::test_revoked_token_is_refused_within_two_seconds": (
        "A revoked token is refused within two seconds."
    ),
    "test_rotation.py::test_token_rotation_refuses_no_caller_that_rereads_its_token": (
        "rotated without a restart or a refused call"
    ),
    "test_skills.py::test_skill_image_is_mounted_read_only_by_digest": (
        "agents mount only files with the recorded digest"
    ),
    "test_workspace.py::test_shell_reaches_a_named_host_through_the_proxy_only": (
        "It reaches hosts by name only through an HTTP proxy in another pod"
    ),
    "test_workspace.py::test_shell_sees_no_credential_and_no_process_of_the_runner": (
        "A command runs in a pod without credentials"
    ),
    "test_workspace.py::test_workspace_is_isolated_except_from_its_agent": (
        "reaches only the destinations of `spec.workspace.network.egress`"
    ),
}
"""The promise of each core scenario, by file and function."""
