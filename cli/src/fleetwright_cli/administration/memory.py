"""Exports and erases what an agent remembers of an owner."""

from collections import Counter
from collections.abc import Mapping
from typing import Any, BinaryIO, Final

from fleetwright_api.encoding.untrusted_json import read_json
from fleetwright_cli.administration.admin_client import AdminClient, Json
from fleetwright_cli.cluster.tables import render, visible
from fleetwright_cli.terminal.transport.errors import RequestError

PATH: Final = "/admin/memory"
_END: Final = "end"


def target(owner: str, conversation: str | None) -> dict[str, str]:
    """Return the parameters of a request about an owner, or about one conversation of the owner."""
    return {"owner": owner, **({"contextId": conversation} if conversation is not None else {})}


async def export_memory(client: AdminClient, parameters: Mapping[str, str], output: BinaryIO) -> Counter[str]:
    """Write the lines of the export, and return how many there are of each kind.

    Raises:
        TransportError: The agent refuses, or the export is not complete.
    """
    kinds: Counter[str] = Counter()
    last: Json = {}
    async for line in client.lines(PATH, parameters):
        last = _object(line)
        output.write(line + b"\n")
        kinds[str(last.get("kind"))] += 1
    kinds.pop(_END, None)
    if last.get("kind") != _END or last.get("lines") != kinds.total():
        raise RequestError("the export is not complete, because the connection ended early; run the command again")
    return kinds


async def erase_memory(client: AdminClient, parameters: Mapping[str, str]) -> Json:
    """Erase, and return the receipt. Raises: TransportError."""
    return await client.call("DELETE", PATH, parameters)


def summary(kinds: Mapping[str, int]) -> str:
    """Return a table of the number of lines of each kind."""
    return render([("KIND", "LINES"), *((kind, str(count)) for kind, count in sorted(kinds.items()))])


def receipt_text(receipt: Mapping[str, Any]) -> str:
    """Return the receipt of an erasure for people."""
    erased = receipt.get("erased")
    stores = erased if isinstance(erased, dict) else {}
    about = [("owner", "owner"), ("contextId", "conversation"), ("completedAt", "completed"), ("digest", "digest")]
    rows = [(label, visible(str(receipt[key]))) for key, label in about if key in receipt]
    forks = receipt.get("forks")
    rows += [("fork", visible(str(fork))) for fork in (forks if isinstance(forks, list) else [])]
    return f"{render(rows)}\n\n{render([('STORE', 'ERASED'), *((name, str(count)) for name, count in stores.items())])}"


def _object(line: bytes) -> Json:
    try:
        document = read_json(line)
    except ValueError:
        document = None
    if not isinstance(document, dict):
        raise RequestError("the agent sent a line that is not a JSON object")
    return document
