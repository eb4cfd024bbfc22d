"""The list of open questions: every field is validated, because an agent runs untrusted code."""

import pytest
from tests.support.operator.approvals import ASK, DIGEST

from fleetwright_agent.config.callers import person
from fleetwright_operator.approvals.approval_listing import MAX_OPEN, parse_listing

NOW = 1_000


def only(**changes):
    listing = parse_listing({"version": "1", "open": [{**ASK, **changes}]}, now=NOW)
    assert listing is not None
    return listing.asks[0] if listing.asks else None


def test_parse_listing_keeps_every_field_of_a_question():
    ask = only()
    assert ask is not None
    assert (ask.task, ask.context, ask.ask, ask.tool) == ("t-1", "c-1", "a-1", "orders__refund")
    assert (ask.title, ask.preview, ask.arguments) == (ASK["title"], ASK["preview"], {"order": 7})
    assert (ask.digest, ask.requested_by) == (DIGEST, ASK["requestedBy"])
    assert (ask.created_at, ask.expires_at) == (600, 3600)
    assert ask.agents == (("shop", "front"), ("shop", "clerk"))
    assert ask.person == "alice"


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"task": ""}, id="no task"),
        pytest.param({"task": "a\nb"}, id="a task with a line feed"),
        pytest.param({"ask": 7}, id="a number as ask"),
        pytest.param({"ask": "x" * 257}, id="a long ask"),
        pytest.param({"argumentsDigest": "sha256:1"}, id="a short digest"),
        pytest.param({"argumentsDigest": None}, id="no digest"),
        pytest.param({"chain": None}, id="no chain"),
        pytest.param({"chain": ["user:alice"]}, id="a person in the chain"),
        pytest.param({"chain": ["agent:shop/front", 7]}, id="a number in the chain"),
        pytest.param({"chain": ["agent:shop/x y"]}, id="an agent that no cluster has"),
        pytest.param({"chain": ["agent:shop/front"] * 17}, id="an endless chain"),
        pytest.param({"requestedBy": "user:" + "x" * 641}, id="a person whom no Approval can name"),
    ],
)
def test_parse_listing_drops_an_unusable_question(changes):
    assert only(**changes) is None


@pytest.mark.parametrize(
    ("changes", "field", "value"),
    [
        pytest.param({"title": "t" * 300}, "title", "t" * 256, id="a long title is cut"),
        pytest.param({"title": "one\ntwo"}, "title", "one two", id="a title has one line"),
        pytest.param({"preview": "x" * 5000}, "preview", "x" * 4096, id="a long preview is cut"),
        pytest.param({"preview": "\x1b[2Jx"}, "preview", "\ufffd[2Jx", id="terminal escapes are replaced"),
        pytest.param({"preview": "a\u202eb"}, "preview", "a\ufffdb", id="changes of direction are replaced"),
        pytest.param({"preview": 7}, "preview", "", id="a preview that is no text"),
        pytest.param({"arguments": {"x": "y" * 4096}}, "arguments", None, id="long arguments are left out"),
        pytest.param(
            {"arguments": {f"k{n}": 1 for n in range(257)}}, "arguments", None, id="too many arguments are left out"
        ),
        pytest.param({"arguments": [1]}, "arguments", None, id="arguments that are no object"),
        pytest.param({"createdAt": "yesterday"}, "created_at", NOW, id="an unusable time of creation"),
        pytest.param({"createdAt": "2026-99-99T00:00:00Z"}, "created_at", NOW, id="an impossible time"),
        pytest.param({"expiresAt": 7}, "expires_at", None, id="an unusable expiry"),
        pytest.param({"requestedBy": "user:a via agent:b/c"}, "person", "a", id="a person through an agent"),
        pytest.param({"requestedBy": person("https://i#Ada Łuk")}, "person", "https://i#Ada Łuk", id="encoded"),
        pytest.param({"requestedBy": person("a via b")}, "person", "a via b", id="a name like two callers"),
        pytest.param({"requestedBy": "client:web"}, "person", None, id="a client is no person"),
        pytest.param({"requestedBy": "agent:shop/clerk"}, "person", None, id="an agent is no person"),
        pytest.param({"requestedBy": None}, "person", None, id="an unknown caller"),
    ],
)
def test_parse_listing_bounds_what_is_shown(changes, field, value):
    assert getattr(only(**changes), field) == value


@pytest.mark.parametrize(
    "document",
    [
        pytest.param(None, id="nothing"),
        pytest.param([], id="a list"),
        pytest.param({"version": "1"}, id="no questions"),
        pytest.param({"version": 1, "open": []}, id="a number as version"),
        pytest.param({"version": "", "open": []}, id="an empty version"),
        pytest.param({"version": "v" * 300, "open": []}, id="a long version"),
    ],
)
def test_parse_listing_refuses_another_document(document):
    assert parse_listing(document, now=NOW) is None


def test_parse_listing_keeps_at_most_a_hundred_questions():
    listing = parse_listing({"version": "1", "open": [{**ASK, "ask": f"a-{n}"} for n in range(150)]}, now=NOW)
    assert listing is not None
    assert len(listing.asks) == MAX_OPEN
