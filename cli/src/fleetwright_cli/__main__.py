"""The `fleetwright` command, also found as `kubectl fleetwright`. Holds the options; the work is elsewhere."""

import click
import uvicorn


@click.group()
@click.version_option(package_name="fleetwright")
def main() -> None:
    """Fleets of A2A agents from YAML."""


@main.command("offline-model")
@click.option("--host", default="127.0.0.1", show_default=True)
@click.option("--port", default=8080, show_default=True, envvar="PORT")
@click.option("--api-key", default=None, help="Refuse every other bearer token.")
def offline_model(host: str, port: int, api_key: str | None) -> None:
    """Serve a deterministic OpenAI-compatible model, for trying and testing without a provider."""
    from fleetwright_cli.offline.model import OfflineModel

    uvicorn.run(OfflineModel(key=api_key).app(), host=host, port=port, log_level="warning")


@main.command("offline-orders")
@click.option("--host", default="127.0.0.1", show_default=True)
@click.option("--port", default=8000, show_default=True, envvar="PORT")
def offline_orders(host: str, port: int) -> None:
    """Serve the examples' order book as an MCP server (streamable HTTP, path /mcp)."""
    from fleetwright_cli.offline.orders import orders_server

    orders_server(host=host, port=port).run("streamable-http")


if __name__ == "__main__":
    main()
