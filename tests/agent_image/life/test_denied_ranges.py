"""Address ranges that the installation denies: no tool of any agent may connect to them."""

import httpx
from tests.support.machine import ceiling
from tests.support.plain_http import NO_TLS


async def test_denied_ranges_block_mcp_servers_and_peers(agent, peer, mounted, house):
    token = mounted.layout.peer_token_file("team", "cook")
    token.parent.mkdir(parents=True, exist_ok=True)
    token.write_text("self")
    async with peer() as cook:
        peers = [{"name": "cook", "namespace": "team", "url": cook.url}]
        async with agent(peers=peers, deniedRanges=["127.0.0.1/32"]) as guest:
            booked = await guest.say("Book a table for 3 guests.")
            asked = await guest.say("Ask the cook to boil eggs.")
            async with httpx.AsyncClient(verify=NO_TLS, base_url=guest.ops_url, timeout=ceiling()) as http:
                (server,) = (await http.get("/status")).json()["mcpServers"]
        assert (await cook.call("ListTasks", {}))["result"]["tasks"] == []
    assert house.ledger == []
    assert booked["status"]["state"] == asked["status"]["state"] == "TASK_STATE_COMPLETED"
    assert "leads to an address that agents may not reach" in asked["artifacts"][0]["parts"][0]["text"]
    assert not server["reachable"]
