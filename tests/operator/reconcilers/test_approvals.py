"""Approvals on the in-memory cluster: from the question of an agent to the delivery of a decision."""

import base64
import json
from hashlib import sha256

import pytest
from tests.operator.conftest import NOW
from tests.support.operator.approvals import ASK

from fleetwright_api import names
from fleetwright_kube.timestamps import format_timestamp, parse_timestamp
from fleetwright_operator.approvals.approval_listing import NOT_SERVED
from fleetwright_operator.approvals.delivery import DeliveryAnswer, Outcome
from fleetwright_operator.credentials.derived_tokens import operator_tokens
from fleetwright_operator.credentials.stored_credentials import stored_ring

PERSON = "alice@example.com"
NAME = names.approval("poet", "a-1")
ASKS = {"approvals": {"tools": ["load_skill"]}}
ACCEPTED = Outcome(answer=DeliveryAnswer.ACCEPTED)


class Runtime:
    """An agent that accepts one decision for each question, as the contract says."""

    def __init__(self):
        self.decisions = {}
        self.sent = []
        self.answer = None
        """The answer to every decision; None to answer as an agent does."""

    async def __call__(self, pod, tokens, ask, document):
        self.sent.append((pod.name, tuple(tokens), ask, document))
        if self.answer is not None:
            return self.answer
        if self.decisions.setdefault(ask, document) == document:
            return ACCEPTED
        first = self.decisions[ask]
        return Outcome(answer=DeliveryAnswer.DECIDED, decision=first["decision"], decided_by=first["decidedBy"])


@pytest.fixture
def runtime():
    return Runtime()


@pytest.fixture
async def fleet(make_world, with_gateway, api, runtime):
    world = make_world(api, with_gateway, deliver=runtime)
    yield world
    await world.stop()


def put_pod(api, agent="poet"):
    """Put the ReplicaSet and the ready pod of the agent's Deployment."""
    labels = {names.MANAGED_BY: names.FIELD_MANAGER, names.AGENT_LABEL: agent}
    deployment = api.find("Deployment", agent)["metadata"]["uid"]
    above = {"apiVersion": "apps/v1", "kind": "Deployment", "name": agent, "uid": deployment, "controller": True}
    metadata = {"name": f"{agent}-5d4f", "namespace": "shop", "labels": labels, "ownerReferences": [above]}
    made = api.put({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": metadata})["metadata"]
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": made["name"], "uid": made["uid"]}
    owner["controller"] = True
    metadata = {"name": f"{agent}-1", "namespace": "shop", "labels": labels, "ownerReferences": [owner]}
    ready = {"podIP": "10.0.0.1", "conditions": [{"type": "Ready", "status": "True"}]}
    api.put({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "status": ready})


async def running(world, api, objects, **spec):
    api.put(objects.agent(**{**ASKS, **spec}))
    await world.start()
    await world.settle()
    api.roll_out("poet")
    put_pod(api)
    await world.settle()


def lists(world, *asks, version="1", **changes):
    """Handle a list of the agent's open questions as if it had just been polled."""
    agent = world.manager.cache.get(names.AGENT, "shop", "poet")
    expiry = {"createdAt": format_timestamp(world.moment), "expiresAt": format_timestamp(world.moment + 3_600)}
    listed = [{**ASK, **expiry, "ask": ask, **changes} for ask in asks]
    assert world.manager.approval_lists.handle(agent, {"version": version, "open": listed}) == version


def decide(api, decision="Approved", by=PERSON, **more):
    api.edit(names.APPROVAL, NAME, {"spec": {"decision": decision, "decidedBy": by, **more}})


def status(api, name=NAME):
    return api.find(names.APPROVAL, name)["status"]


def conditions(api):
    return {each["type"]: (each["status"], each["reason"]) for each in status(api)["conditions"]}


async def test_open_question_becomes_an_object_of_its_agent(fleet, api, objects):
    api.put(objects.agent("clerk", serviceAccountName="robot"))
    await running(fleet, api, objects)
    lists(fleet, "a-1")
    await fleet.settle()
    found = api.find(names.APPROVAL, NAME)
    assert found["metadata"]["ownerReferences"][0]["name"] == "poet"
    assert found["metadata"]["labels"][names.AGENT_LABEL] == "poet"
    request = found["spec"]["request"]
    assert {key: request[key] for key in ("agent", "task", "ask", "tool")} == {
        "agent": "poet", "task": "t-1", "ask": "a-1", "tool": "orders__refund",
    }  # fmt: skip
    accounts = ["system:serviceaccount:shop:" + name for name in ("poet", "front", "robot")]
    assert request["forbiddenDeciders"] == accounts
    assert (found["status"]["phase"], conditions(api)) == ("Pending", {"Decided": ("False", "Pending")})


async def test_person_who_asks_is_forbidden_for_other_reviewers(fleet, api, objects):
    approvals = {"tools": ["load_skill"], "by": "OtherReviewers"}
    await running(fleet, api, objects, approvals=approvals)
    (config,) = (each for each in api.all("ConfigMap") if "agent.json" in each.get("data", {}))
    assert json.loads(config["data"]["agent.json"])["approvals"]["by"] == "Reviewers", (
        "the runtime refuses the answers of callers"
    )
    lists(fleet, "a-1", requestedBy="user:alice via agent:shop/front")
    await fleet.settle()
    assert "alice" in api.find(names.APPROVAL, NAME)["spec"]["request"]["forbiddenDeciders"]
    decide(api, by="alice")
    await fleet.settle()
    assert "decision" not in api.find(names.APPROVAL, NAME)["spec"], "also without the admission policy"
    assert conditions(api)["Delivered"] == ("False", "ForbiddenDecider")


async def test_approval_writes_only_on_transitions(fleet, api, objects):
    await running(fleet, api, objects)
    lists(fleet, "a-1")
    await fleet.settle()
    before = len(api.writes)
    for version in ("2", "3"):
        lists(fleet, "a-1", version=version)
        await fleet.settle()
    await fleet.manager.cache_sync.synchronise()
    await fleet.settle()
    assert api.writes[before:] == []


async def test_decision_is_delivered_once_and_recorded(fleet, api, objects, runtime):
    await running(fleet, api, objects)
    fleet.tell_events()
    lists(fleet, "a-1")
    await fleet.settle()
    decide(api, "Denied", reason="too much")
    await fleet.settle()
    lists(fleet, version="2")
    await fleet.settle()
    ((pod, tokens, ask, document),) = runtime.sent
    assert (pod, ask) == ("poet-1", "a-1")
    assert document == {
        "task": "t-1",
        "decision": "Denied",
        "decidedBy": PERSON,
        "reason": "too much",
        "argumentsDigest": ASK["argumentsDigest"],
    }
    found = status(api)
    assert (found["phase"], found["decided"], found["delivered"], found["closed"]) == ("Denied", NOW, NOW, NOW)
    (requested,) = [event for event in api.all("Event") if event["reason"] == "ApprovalRequested"]
    assert (requested["involvedObject"]["name"], requested["type"]) == ("poet", "Normal")
    assert requested["message"] == f"{NAME} waits for a decision about orders__refund"
    assert conditions(api) == {"Decided": ("True", "Denied"), "Delivered": ("True", "Accepted")}
    events = {event["reason"]: event for event in api.all("Event") if event["involvedObject"]["name"] == NAME}
    assert events["Denied"]["message"] == f"decided by {PERSON}: too much"
    samples = fleet.manager.metrics.registry
    assert samples.get_sample_value("fleetwright_approval_deliveries_total", {"answer": "accepted"}) == 1
    assert samples.get_sample_value("fleetwright_approvals", {"phase": "Denied"}) == 1
    # The token of the request is one whose digest the agent has.
    digests = [{"sha256": sha256(token.encode()).hexdigest()} for token in tokens]
    data = api.find("Secret", "poet-auth")["data"][names.OPERATOR_KEY]
    assert json.loads(base64.b64decode(data)) == {"version": 1, "operators": digests}


async def test_only_agents_that_may_ask_accept_the_operator(fleet, api, objects):
    await running(fleet, api, objects, approvals={})
    assert names.OPERATOR_KEY not in api.find("Secret", "poet-auth")["data"]
    assert not fleet.manager.cache.find("asks")


async def test_approval_is_deleted_a_day_after_it_was_closed(fleet, api, objects, runtime):
    await running(fleet, api, objects)
    lists(fleet, "a-1")
    await fleet.settle()
    decide(api)
    await fleet.settle()
    lists(fleet, version="2")
    await fleet.settle()
    await fleet.later(86_000)
    assert api.has(names.APPROVAL, NAME)
    await fleet.later(1_000)
    assert not api.has(names.APPROVAL, NAME)
    assert len(runtime.sent) == 1


async def test_approval_expires_or_is_withdrawn_with_its_question(fleet, api, objects):
    await running(fleet, api, objects)
    lists(fleet, "a-1", "a-2")
    await fleet.settle()
    lists(fleet, "a-2", version="2", createdAt=NOW, expiresAt=format_timestamp(fleet.moment + 3_600))
    await fleet.settle()
    assert status(api)["phase"] == "Withdrawn"
    await fleet.later(3_605)
    lists(fleet, version="3")
    await fleet.settle()
    assert status(api, names.approval("poet", "a-2"))["phase"] == "Expired"


async def test_refused_edit_returns_to_the_person(fleet, api, objects, runtime):
    await running(fleet, api, objects)
    lists(fleet, "a-1")
    await fleet.settle()
    runtime.answer = Outcome(answer=DeliveryAnswer.INVALID, message="order: 9 is above 5")
    decide(api, arguments={"order": 9})
    await fleet.settle()
    assert set(api.find(names.APPROVAL, NAME)["spec"]) == {"request"}
    assert status(api)["phase"] == "Pending"
    assert conditions(api)["Delivered"] == ("False", "InvalidEdit")
    assert "order: 9 is above 5" in json.dumps(status(api))
    runtime.answer = None
    decide(api, arguments={"order": 4})
    await fleet.settle()
    assert (status(api)["phase"], runtime.decisions["a-1"]["arguments"]) == ("Approved", {"order": 4})


@pytest.mark.parametrize("key", ["args", "edits", "Arguments", "edited_arguments"])
async def test_edit_under_another_key_returns_to_the_person(fleet, api, objects, runtime, key):
    await running(fleet, api, objects)
    lists(fleet, "a-1")
    await fleet.settle()
    decide(api, **{key: {"order": 9}})
    await fleet.settle()
    assert runtime.sent == []
    assert set(api.find(names.APPROVAL, NAME)["spec"]) == {"request"}
    assert (status(api)["phase"], conditions(api)["Delivered"]) == ("Pending", ("False", "InvalidEdit"))
    assert f"spec has no field '{key}'; edited arguments belong in spec.arguments" in json.dumps(status(api))
    decide(api, arguments={"order": 4})
    await fleet.settle()
    assert (status(api)["phase"], runtime.decisions["a-1"]["arguments"]) == ("Approved", {"order": 4})


async def test_denial_with_an_unknown_key_is_delivered(fleet, api, objects, runtime):
    await running(fleet, api, objects)
    lists(fleet, "a-1")
    await fleet.settle()
    decide(api, decision="Denied", args={"order": 9})
    await fleet.settle()
    assert (status(api)["phase"], len(runtime.sent)) == ("Denied", 1)


async def test_agent_that_decides_for_itself_is_refused(fleet, api, objects, runtime):
    """The operator refuses it even if the installation lacks the admission policy."""
    await running(fleet, api, objects)
    lists(fleet, "a-1")
    await fleet.settle()
    decide(api, by="system:serviceaccount:shop:poet")
    await fleet.settle()
    assert runtime.sent == []
    assert conditions(api)["Delivered"] == ("False", "ForbiddenDecider")
    assert "decision" not in api.find(names.APPROVAL, NAME)["spec"]


async def test_second_decision_elsewhere_names_the_first(fleet, api, objects, runtime):
    await running(fleet, api, objects)
    lists(fleet, "a-1")
    await fleet.settle()
    runtime.decisions["a-1"] = {"decision": "Denied", "decidedBy": "client:default"}
    decide(api)
    await fleet.settle()
    assert status(api)["phase"] == "Denied"
    assert conditions(api)["Delivered"] == ("False", "DecidedBefore")
    assert "client:default had already decided Denied" in json.dumps(status(api))


async def test_agent_opens_a_hundred_and_no_more(fleet, api, objects):
    await running(fleet, api, objects)
    lists(fleet, *(f"a-{n}" for n in range(100)))
    await fleet.settle()
    assert len(api.all(names.APPROVAL)) == 100
    # Other questions of the same agent replace the former ones, one each second.
    lists(fleet, *(f"b-{n}" for n in range(100)), version="2")
    await fleet.until(lambda: sum(each["status"]["phase"] == "Withdrawn" for each in api.all(names.APPROVAL)) == 100)
    assert len(api.all(names.APPROVAL)) <= 101


async def test_approval_of_a_deleted_agent_is_left_alone(fleet, api, objects, runtime):
    await running(fleet, api, objects)
    lists(fleet, "a-1")
    await fleet.settle()
    api.remove(names.AGENT, "poet")
    await fleet.settle()
    assert api.all(names.APPROVAL) == []
    api.put(objects.agent(**ASKS, instructions="Another agent."))
    await fleet.settle()
    assert api.all(names.APPROVAL) == []


@pytest.mark.parametrize("spec", [{}, {"request": 7}, {"request": {"agent": "poet"}}, {"decision": "Approved"}])
async def test_malformed_approval_is_left_alone(fleet, api, objects, runtime, spec):
    """An older CRD may accept such an object, and an installation may lack the admission policy."""
    await running(fleet, api, objects)
    api.put(objects.custom(names.APPROVAL, NAME, spec))
    await fleet.settle()
    assert api.find(names.APPROVAL, NAME)["status"] == {}
    assert runtime.sent == []


async def test_approval_without_an_owner_is_deleted(fleet, api, objects):
    """`kubectl delete agent --cascade=orphan` leaves Approvals whose decision could never be delivered."""
    await running(fleet, api, objects)
    lists(fleet, "a-1")
    await fleet.settle()
    found = api.find(names.APPROVAL, NAME)
    api.remove(names.AGENT, "poet")
    await fleet.settle()
    left = {key: found["metadata"][key] for key in ("name", "namespace", "labels")}
    api.put({**found, "metadata": left})
    await fleet.settle()
    assert api.all(names.APPROVAL) == []


async def test_escalation_tells_the_parent_agent_once(fleet, api, objects):
    api.put(objects.agent("lead"))
    await running(
        fleet, api, objects, approvals={**ASKS["approvals"], "escalateAfter": "10m"}, fleet={"parent": {"name": "lead"}}
    )
    fleet.tell_events()
    lists(fleet, "a-1")
    await fleet.settle()
    await fleet.later(700)
    await fleet.settle()
    moment = parse_timestamp(status(api)["escalated"]) - parse_timestamp(NOW)
    assert 600 <= moment <= 601
    told = [event for event in api.all("Event") if event["involvedObject"]["name"] == "lead"]
    ((event,),) = [[event for event in told if event["reason"] == "ApprovalEscalated"]]
    assert (event["type"], event["count"]) == ("Warning", 1)
    assert "agent poet has been waiting since" in event["message"]
    await fleet.until(lambda: any(event["reason"] == "NotDecided" for event in api.all("Event")))


QUIET = {"runningTasks": 0, "waitingTasks": 0, "openStreams": 0, "undeliveredPushes": 0}


async def test_decision_wakes_a_sleeping_agent_and_is_delivered(fleet, api, objects, runtime):
    await running(fleet, api, objects, sleep={"afterIdle": "15m"})
    lists(fleet, "a-1", expiresAt=None)
    started = format_timestamp(fleet.moment)
    await fleet.later(1_000)
    document = {"activity": {**QUIET, "startedAt": started}}
    fleet.manager.report_handler.handle(fleet.manager.cache.get("Pod", "shop", "poet-1"), document)
    await fleet.settle()
    # The open approval did not prevent the sleep.
    assert api.find("Deployment", "poet")["spec"]["replicas"] == 0
    api.remove("Pod", "poet-1")
    await fleet.settle()
    decide(api)
    await fleet.until(lambda: api.find("Deployment", "poet")["spec"]["replicas"] == 1)
    await fleet.until(lambda: conditions(api).get("Delivered") == ("False", "Delivering"))
    assert (status(api)["phase"], runtime.sent) == ("Approved", [])
    api.roll_out("poet")
    put_pod(api)
    await fleet.until(lambda: "delivered" in status(api))
    assert [ask for _, _, ask, _ in runtime.sent] == ["a-1"]
    assert api.find("Deployment", "poet")["spec"]["replicas"] == 1


async def test_agent_sleeps_only_after_it_has_listed_its_questions(fleet, api, objects, runtime):
    await running(fleet, api, objects, sleep={"afterIdle": "15m"})
    started = format_timestamp(fleet.moment)
    await fleet.later(1_000)
    document = {"activity": {**QUIET, "startedAt": started}}
    fleet.manager.report_handler.handle(fleet.manager.cache.get("Pod", "shop", "poet-1"), document)
    await fleet.settle()
    assert api.find("Deployment", "poet")["spec"]["replicas"] == 1
    lists(fleet, "a-1", expiresAt=None)
    await fleet.settle()
    assert (status(api)["phase"], api.find("Deployment", "poet")["spec"]["replicas"]) == ("Pending", 0)


async def test_agent_sleeps_only_after_each_question_has_an_approval(fleet, api, objects):
    """Otherwise the next process would not know the question until the agent wakes."""
    await running(fleet, api, objects, sleep={"afterIdle": "15m"})
    started = format_timestamp(fleet.moment)
    await fleet.later(1_000)
    refused = []

    def fault(number, what):
        if names.APPROVAL not in what:
            return None
        refused.append(what)
        return TimeoutError("no answer")

    api.fault = fault
    lists(fleet, "a-1", expiresAt=None)
    document = {"activity": {**QUIET, "startedAt": started}}
    fleet.manager.report_handler.handle(fleet.manager.cache.get("Pod", "shop", "poet-1"), document)
    await fleet.until(lambda: len(refused) > 1)
    assert api.find("Deployment", "poet")["spec"]["replicas"] == 1
    assert "sleep" not in api.find(names.AGENT, "poet")["status"]
    api.fault = lambda number, what: None
    await fleet.until(lambda: api.find("Deployment", "poet")["spec"]["replicas"] == 0)
    assert status(api)["phase"] == "Pending"


@pytest.mark.parametrize(
    ("document", "replicas"),
    [
        pytest.param(NOT_SERVED, 0, id="an image without the route"),
        pytest.param({"version": "", "open": []}, 1, id="an unusable list"),
    ],
)
async def test_agent_without_the_route_sleeps(fleet, api, objects, document, replicas):
    await running(fleet, api, objects, sleep={"afterIdle": "15m"})
    started = format_timestamp(fleet.moment)
    await fleet.later(1_000)
    idle = {"activity": {**QUIET, "startedAt": started}}
    fleet.manager.report_handler.handle(fleet.manager.cache.get("Pod", "shop", "poet-1"), idle)
    await fleet.settle()
    agent = fleet.manager.cache.get(names.AGENT, "shop", "poet")
    assert fleet.manager.approval_lists.handle(agent, document) is None
    await fleet.settle()
    assert api.find("Deployment", "poet")["spec"]["replicas"] == replicas


async def test_missing_route_keeps_the_open_approvals(fleet, api, objects):
    await running(fleet, api, objects)
    lists(fleet, "a-1")
    await fleet.settle()
    agent = fleet.manager.cache.get(names.AGENT, "shop", "poet")
    fleet.manager.approval_lists.handle(agent, NOT_SERVED)
    await fleet.settle()
    assert status(api)["phase"] == "Pending"


@pytest.mark.parametrize("write", range(3))
@pytest.mark.parametrize("lost", [pytest.param(True, id="answer lost"), pytest.param(False, id="write refused")])
async def test_restart_in_any_phase_delivers_exactly_once(make_world, with_gateway, api, objects, runtime, write, lost):
    """The operator ends at each write of an approval's life, and another process continues."""
    api.put(objects.agent(**ASKS))
    first = make_world(api, with_gateway, deliver=runtime)
    await first.start()
    await first.settle()
    api.roll_out("poet")
    put_pod(api)
    await first.settle()
    start, hit = len(api.writes), []

    def hits(number, what):
        """Return True once, at the write with this number among those of the Approval."""
        if hit or names.APPROVAL not in what or sum(names.APPROVAL in each for each in api.writes[start:]) <= write:
            return False
        hit.append(what)
        return True

    if lost:
        api.lose = hits
    else:
        api.fault = lambda number, what: TimeoutError("no answer") if hits(number, what) else None
    lists(first, "a-1")
    await first.until(lambda: hit or len([each for each in api.writes[start:] if names.APPROVAL in each]) == 2)
    if not hit:
        decide(api)
        await first.until(lambda: hit)
    await first.stop()
    second = make_world(api, with_gateway, deliver=runtime)
    await second.start()
    lists(second, *([] if "a-1" in runtime.decisions else ["a-1"]))
    await second.settle()
    if "decision" not in api.find(names.APPROVAL, NAME)["spec"]:
        decide(api)
        await second.settle()
    await second.stop()
    assert [each["metadata"]["name"] for each in api.all(names.APPROVAL)] == [NAME]
    assert (status(api)["phase"], "delivered" in status(api)) == ("Approved", True)
    assert len(runtime.decisions) == 1
    assert all(sent[2:] == runtime.sent[0][2:] for sent in runtime.sent)


async def test_rotated_card_keys_keep_both_tokens(fleet, api, objects):
    await running(fleet, api, objects)
    ring = stored_ring(fleet.manager.cache.get(names.CARD_KEYS, *fleet.manager.settings.card_keys_place))
    uid = api.find(names.AGENT, "poet")["metadata"]["uid"]
    (token,) = operator_tokens(ring, uid)
    fleet.moment += fleet.manager.settings.card_rotation.ttl
    fleet.manager.queue.add((names.CARD_KEYS, *fleet.manager.settings.card_keys_place))
    await fleet.settle()
    ring = stored_ring(fleet.manager.cache.get(names.CARD_KEYS, *fleet.manager.settings.card_keys_place))
    tokens = operator_tokens(ring, uid)
    assert len(tokens) == 2
    assert tokens[1] == token
    data = base64.b64decode(api.find("Secret", "poet-auth")["data"][names.OPERATOR_KEY]).decode()
    assert all(sha256(each.encode()).hexdigest() in data for each in tokens)


async def test_operator_works_without_the_crd_of_approvals(fleet, api, objects, caplog):
    """An installation may apply its CRDs separately, after the operator."""
    api.unserved.add(names.APPROVAL)
    await running(fleet, api, objects)
    assert fleet.conditions(names.AGENT, "poet")["Available"][0] == "True"
    assert any("apply crds/approval.yaml" in str(getattr(record, "why", "")) for record in caplog.records)
    lists(fleet, "a-1")
    await fleet.until(lambda: fleet.manager.queue.pausing > 0)
    api.unserved.clear()
    await fleet.until(lambda: api.has(names.APPROVAL, NAME), seconds=10)


async def test_operator_sends_nothing_to_a_forged_lone_pod(fleet, api, objects, runtime):
    """The agent has no pod, and a pod with its labels claims to belong to its Deployment."""
    await running(fleet, api, objects)
    lists(fleet, "a-1")
    await fleet.settle()
    api.remove("Pod", "poet-1")
    references = [
        {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "poet-5d4f", "uid": "forged", "controller": True}
    ]
    labels = {names.MANAGED_BY: names.FIELD_MANAGER, names.AGENT_LABEL: "poet"}
    metadata = {"name": "forged", "namespace": "shop", "labels": labels, "ownerReferences": references}
    ready = {"podIP": "10.0.0.66", "conditions": [{"type": "Ready", "status": "True"}]}
    api.put({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "status": ready})
    decide(api)
    await fleet.until(lambda: conditions(api).get("Delivered") == ("False", "Delivering"))
    assert runtime.sent == []
    put_pod(api)
    await fleet.later(30)
    assert [pod for pod, *_ in runtime.sent] == ["poet-1"]
