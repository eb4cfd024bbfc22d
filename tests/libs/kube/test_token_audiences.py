"""The audiences of the API server, read from the operator's own token."""

import base64
import json

import pytest

from fleetwright_kube.token_audiences import api_audiences


def token(payload):
    encoded = base64.urlsafe_b64encode(json.dumps(payload).encode()).decode().rstrip("=")
    return f"e30.{encoded}.c2ln"


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        pytest.param(
            token({"aud": ["https://issuer.example.com", "k3s"]}), {"https://issuer.example.com", "k3s"}, id="a list"
        ),
        pytest.param(token({"aud": "https://issuer.example.com"}), {"https://issuer.example.com"}, id="a text"),
        pytest.param(token({"aud": [7, "a"]}), {"a"}, id="an entry that is no text"),
        pytest.param(token({}), set(), id="no audience"),
        pytest.param(token([1]), set(), id="a payload that is no object"),
        pytest.param("opaque", set(), id="a token that is no JSON web token"),
        pytest.param("a.b.c", set(), id="parts that are no JSON"),
        pytest.param(None, set(), id="a client certificate"),
    ],
)
def test_api_audiences_reads_any_token_without_failing(given, wanted):
    assert api_audiences(given) == wanted
