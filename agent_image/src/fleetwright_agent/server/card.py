"""The agent card: a mounted file, which is served byte for byte at the two well-known paths of A2A.

This module does not build or change a card, because the operator wrote it and may have signed it.
"""

from datetime import UTC
from email.utils import formatdate, parsedate_to_datetime

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from fleetwright_a2a.authentication import PUBLIC
from fleetwright_a2a.card import Card
from fleetwright_a2a.errors import HttpRefusal, refuse
from fleetwright_agent.config.file_watcher import FileWatcher

_MAX_AGE = 60


def card_routes(card: FileWatcher[Card]) -> list[Route]:
    async def serve(request: Request) -> Response | HttpRefusal:
        current, _ = card.read()
        if current is None:
            return refuse(503, "The agent card is not available right now.")
        headers = {
            "ETag": f'"{current.digest}"',
            "Last-Modified": formatdate(card.modified, usegmt=True),
            "Cache-Control": f"public, max-age={_MAX_AGE}",
        }
        if _known(request.headers, current.digest, card.modified):
            return Response(status_code=304, headers=headers)
        return Response(current.raw, media_type="application/json", headers=headers)

    return [Route(path, serve, methods=["GET"]) for path in sorted(PUBLIC)]


def _known(asked: Headers, digest: str, modified: int) -> bool:
    """Return whether the caller already has this card. An ETag takes precedence over a date."""
    if "if-none-match" in asked:
        tags = {tag.strip().removeprefix("W/") for tag in asked["if-none-match"].split(",")}
        return "*" in tags or f'"{digest}"' in tags
    try:
        since = parsedate_to_datetime(asked.get("if-modified-since", ""))
        return since.replace(tzinfo=since.tzinfo or UTC).timestamp() >= modified
    except (ValueError, OverflowError):
        return False
