"""The settings of the gateway: the environment, its errors, and the documents that describe it."""

import re
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from fleetwright_gateway.settings import GatewaySettings, settings_from
from fleetwright_gateway.telemetry.metrics import GatewayMetrics

GUIDE = Path(__file__).parents[2] / "docs/guides/one-url-for-all-agents.md"


def test_settings_have_defaults():
    assert settings_from({}) == GatewaySettings()


def test_settings_read_the_environment():
    found = settings_from(
        {
            "FLEETWRIGHT_GATEWAY_URL": "http://gateway.system/",
            "FLEETWRIGHT_GATEWAY_PUBLIC_URL": "https://agents.example.com",
            "FLEETWRIGHT_GATEWAY_PORT": "1234",
            "FLEETWRIGHT_GATEWAY_KEYS_FILE": "/keys.json",
            "FLEETWRIGHT_GATEWAY_ALLOWED_ORIGINS": "https://a.example.com,https://b.example.com",
            "FLEETWRIGHT_NAMESPACES": "a,b",
        }
    )
    assert (found.url, found.outside_url) == ("http://gateway.system", "https://agents.example.com")
    assert (found.port, found.keys_file, found.namespaces) == (1234, Path("/keys.json"), ("a", "b"))
    assert found.publisher_domain == "agents.example.com"
    assert found.origins == {"https://a.example.com", "https://b.example.com", "https://agents.example.com"}


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("URL", "gateway", "must be an address"),
        ("URL", "ftp://gateway", "must be an address"),
        ("PUBLIC_URL", "https://user@host", "must be an address"),
        ("PUBLIC_URL", "https://host?x=1", "must be an address"),
        ("PORT", "http", "must be a number"),
        ("IDLE_SECONDS", "0", "must be above zero"),
        ("IDLE_SECONDS", "nan", "must be above zero"),
        ("PROXY_CIDRS", "10.0.0.0/8,10.0.0.1/8", "must be networks"),
        ("ACCEPT_API_SERVER_TOKENS", "yes", "must be true or false"),
    ],
)
def test_settings_name_the_variable_that_is_wrong(name, value, says):
    with pytest.raises(ValueError, match=f"FLEETWRIGHT_GATEWAY_{name} {says}"):
        settings_from({f"FLEETWRIGHT_GATEWAY_{name}": value})


def test_guide_lists_every_metric():
    registry = CollectorRegistry()
    GatewayMetrics(registry)
    families = {f"{family.name}_total" if family.type == "counter" else family.name for family in registry.collect()}
    assert set(re.findall(r"`(fleetwright_gateway_\w+)`", GUIDE.read_text())) == families
