"""An MCP server with a small order book: the tools of the example fleets, over streamable HTTP."""

from typing import Annotated

from mcp.server.fastmcp import FastMCP
from mcp.server.fastmcp.exceptions import ToolError
from pydantic import Field

_BOOK = {
    "A-1001": ("two oak chairs", 249.00, "delivered on 3 November"),
    "A-1002": ("a desk lamp", 39.50, "delivered on 12 November, reported broken"),
    "A-1003": ("a standing desk", 610.00, "in transit"),
    "A-1004": ("six glass jars", 18.00, "cancelled by the customer"),
}


def orders_server(*, host: str, port: int) -> FastMCP:
    """Return the server. It is stateless, so a restart loses no session."""
    server = FastMCP("orders", host=host, port=port, stateless_http=True, json_response=True)

    @server.tool()
    def look_up_order(order: Annotated[str, Field(description="Order number, such as A-1001")]) -> str:
        """Look up an order by its number: items, price and where it is."""
        items, price, state = _known(order)
        return f"Order {order}: {items}, {price:.2f} USD, {state}."

    @server.tool()
    def refund_order(order: Annotated[str, Field(description="Order number")]) -> str:
        """Refund an order to the customer."""
        _, price, _ = _known(order)
        return f"Refund of {price:.2f} USD for order {order} is booked."

    return server


def _known(order: str) -> tuple[str, float, str]:
    try:
        return _BOOK[order.upper()]
    except KeyError:
        raise ToolError(f"order: {order!r} is not in the book; numbers look like A-1001") from None
