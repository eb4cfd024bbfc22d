"""The limit of unknown tokens counts clients, also if they send their requests through a trusted proxy."""

from collections import Counter
from dataclasses import replace

import pytest
from tests.support.gateway.fleet_api import NOW, token_text
from tests.support.gateway.served_gateway import running

from fleetwright_a2a.clock import Clock
from fleetwright_gateway.http.client_sources import ClientSources

PROXY, OTHER_PROXY, PROXY6, CLIENT, STRANGER = "10.9.0.7", "10.9.1.8", "fd00::7", "192.0.2.1", "198.51.100.9"
SOURCES = ClientSources(("10.9.0.0/16", "fd00::/8"))


@pytest.mark.parametrize(
    ("connection", "forwarded", "source"),
    [
        (CLIENT, [], CLIENT),
        (CLIENT, [STRANGER], CLIENT),
        (CLIENT, ["garbage"], CLIENT),
        ("2001:db8:1:2:3::4", [CLIENT], "2001:db8:1:2::/64"),
        ("2001:db8:1:2:ffff::5", [], "2001:db8:1:2::/64"),
        ("::ffff:192.0.2.1", [], CLIENT),
        ("worker.sock", [STRANGER], "worker.sock"),
        (PROXY, [CLIENT], CLIENT),
        (PROXY6, [CLIENT], CLIENT),
        ("::ffff:10.9.0.7", [CLIENT], CLIENT),
        (PROXY, [f"{STRANGER}, {CLIENT}"], CLIENT),
        (PROXY, [f"garbage, {CLIENT}"], CLIENT),
        (PROXY, [STRANGER, CLIENT], CLIENT),
        (PROXY, [f"{STRANGER}, {CLIENT}, {OTHER_PROXY}"], CLIENT),
        (PROXY, [f"{STRANGER},{CLIENT}", f"{OTHER_PROXY} ,\t{PROXY6}"], CLIENT),
        (PROXY, [f"{CLIENT}:4711"], CLIENT),
        (PROXY, ["::ffff:192.0.2.1"], CLIENT),
        (PROXY, ["2001:db8:1:2:3::4"], "2001:db8:1:2::/64"),
        (PROXY, ["[2001:db8:1:2:3::4]"], "2001:db8:1:2::/64"),
        (PROXY, ["[2001:db8:1:2:3::4]:4711"], "2001:db8:1:2::/64"),
        (PROXY, [], None),
        (PROXY, [""], None),
        (PROXY, [","], None),
        (PROXY, ["unknown"], None),
        (PROXY, ["_hidden"], None),
        (PROXY, ["[2001:db8::1"], None),
        (PROXY, ["192.0.2.1:4711:1"], None),
        (PROXY, ["192.0.2"], None),
        (PROXY, [f"{CLIENT}, unknown"], None),
        (PROXY, [f"{CLIENT}, unknown, {OTHER_PROXY}"], None),
        (PROXY, [f"{OTHER_PROXY}, {PROXY6}"], None),
        (PROXY, [CLIENT + f", {OTHER_PROXY}" * 31], CLIENT),
        (PROXY, [CLIENT + f", {OTHER_PROXY}" * 32], None),
        (PROXY, [CLIENT + f", {OTHER_PROXY}" * 16, OTHER_PROXY + f", {PROXY6}" * 15], None),
    ],
)
def test_source_is_the_last_address_that_no_proxy_has(connection, forwarded, source):
    headers = [(b"accept", b"*/*"), *((b"x-forwarded-for", value.encode()) for value in forwarded)]
    assert SOURCES.source_of({"type": "http", "client": (connection, 4711), "headers": headers}) == source


def test_header_is_ignored_without_trusted_proxies():
    scope = {"type": "http", "client": (PROXY, 4711), "headers": [(b"x-forwarded-for", CLIENT.encode())]}
    assert ClientSources().source_of(scope) == PROXY
    assert ClientSources().source_of({"type": "http", "client": None, "headers": []}) == ""


async def statuses(client, count, *, name, forwarded):
    """Send invalid tokens to the gateway, and count the answers by status."""
    headers = {"X-Forwarded-For": forwarded} if forwarded else {}
    sent = [
        await client.status("GET", "/v1/agents", token=token_text(f"{name}-{number}"), headers=headers)
        for number in range(count)
    ]
    return Counter(sent)


@pytest.mark.parametrize(
    ("proxies", "flood", "answers", "other", "status"),
    [
        (("127.0.0.1/32",), "192.0.2.1", {401: 10, 429: 30}, "192.0.2.2", 200),
        (("127.0.0.1/32",), "2001:db8::1", {401: 10, 429: 30}, "2001:db8:0:1::1", 200),
        (("127.0.0.1/32",), "2001:db8::1", {401: 10, 429: 30}, "2001:db8::2", 429),
        (("127.0.0.1/32",), "198.51.100.9, 192.0.2.1", {401: 10, 429: 30}, "198.51.100.9, 192.0.2.2", 200),
        (("127.0.0.1/32",), "", {401: 20, 429: 20}, "192.0.2.2", 429),
        ((), "192.0.2.1", {401: 10, 429: 30}, "192.0.2.2", 429),
    ],
    ids=[
        "another client of the proxy is served",
        "another prefix is served",
        "another host with the same prefix shares the limit",
        "an address that the client has written is not used",
        "without the header only the common limit applies",
        "the header of an untrusted connection is ignored",
    ],
)
async def test_flood_of_one_client_refuses_no_other(api, settings, proxies, flood, answers, other, status):
    ada = api.add_person("ada")
    frozen = Clock(now_ns=lambda: int(NOW * 1e9), monotonic=lambda: 0.0)
    async with running(api, replace(settings, proxy_cidrs=proxies), clock=frozen) as client:
        assert await statuses(client, 40, name="garbage", forwarded=flood) == answers
        assert len(api.reviews) == answers[401]
        assert await client.status("GET", "/v1/agents", token=ada, headers={"X-Forwarded-For": other}) == status
