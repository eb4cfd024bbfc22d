"""Requests to the model: declared headers, declared CA and declared proxy."""

from pathlib import Path

import pytest
from tests.support.certificates import certify_loopback
from tests.support.http.relay import run_relay

from fleetwright_agent.config.layout import Layout


def mount(root: Path, name: str, content: bytes) -> str:
    path = Layout(root=root).secret(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return name


async def test_model_headers_are_read_from_files_for_every_call(config, talking, model_port, tmp_path):
    file = mount(tmp_path, "secrets/gateway/tenant", b"first\n")
    async with run_relay(model_port) as seen:
        model = {"baseUrl": f"http://127.0.0.1:{seen.port}/v1", "headers": [{"name": "X-Tenant", "valueFile": file}]}
        async with talking(config(model=model)) as talk:
            assert (await talk.say("Hello there")).failure is None
            assert b"x-tenant: first\r\n" in seen.heard.lower()
            mount(tmp_path, file, b"second")
            assert (await talk.say("Hello again")).failure is None
    assert b"x-tenant: second\r\n" in seen.heard.lower()


async def test_model_header_with_a_missing_file_fails_the_turn(config, talking):
    headers = [{"name": "X-Tenant", "valueFile": "secrets/gateway/tenant"}]
    async with talking(config(model={"headers": headers})) as talk:
        said = await talk.say("Hello there")
    assert said.failure is not None
    assert said.failure.reason == "model_key_missing"


async def test_model_ca_file_is_the_only_trust_anchor(config, talking, model_port, tmp_path):
    context, public = certify_loopback(tmp_path)
    _, other = certify_loopback(tmp_path)
    file = mount(tmp_path, "secrets/ca/ca.crt", other)
    async with run_relay(model_port, context) as seen:
        model = {"baseUrl": f"https://127.0.0.1:{seen.port}/v1", "caFile": file}
        async with talking(config(model=model)) as talk:
            refused = await talk.say("Hello there")
            assert refused.failure is not None
            assert refused.failure.reason == "model_unreachable"
            mount(tmp_path, file, public)
            assert (await talk.say("Hello there")).failure is None


async def test_model_ca_file_without_a_certificate_fails_the_turn(config, talking, tmp_path):
    file = mount(tmp_path, "secrets/ca/ca.crt", b"not a certificate")
    async with talking(config(model={"baseUrl": "https://127.0.0.1:1/v1", "caFile": file})) as talk:
        said = await talk.say("Hello there")
    assert said.failure is not None
    assert said.failure.reason == "model_ca_unusable"


async def test_model_proxy_carries_the_call(config, talking, model_port, tmp_path):
    context, public = certify_loopback(tmp_path)
    file = mount(tmp_path, "secrets/ca/ca.crt", public)
    async with run_relay(model_port, context) as model_side, run_relay() as proxy:
        model = {
            "baseUrl": f"https://127.0.0.1:{model_side.port}/v1",
            "caFile": file,
            "proxyUrl": f"http://127.0.0.1:{proxy.port}",
        }
        async with talking(config(model=model)) as talk:
            assert (await talk.say("Hello there")).failure is None
    assert proxy.heard.startswith(b"CONNECT 127.0.0.1:%d " % model_side.port)


async def test_model_proxy_with_tls_is_verified_by_the_authority_of_the_model(config, talking, model_port, tmp_path):
    context, public = certify_loopback(tmp_path)
    file = mount(tmp_path, "secrets/ca/ca.crt", public)
    async with run_relay(model_port, context) as model_side, run_relay(context=context) as proxy:
        model = {
            "baseUrl": f"https://127.0.0.1:{model_side.port}/v1",
            "caFile": file,
            "proxyUrl": f"https://127.0.0.1:{proxy.port}",
        }
        async with talking(config(model=model)) as talk:
            assert (await talk.say("Hello there")).failure is None
    assert proxy.heard.startswith(b"CONNECT 127.0.0.1:%d " % model_side.port)


@pytest.mark.parametrize(
    "credentials",
    [
        pytest.param({"apiKeyFile": "secrets/key/api-key"}, id="a key"),
        pytest.param({"headers": [{"name": "X-Key", "valueFile": "secrets/key/k"}]}, id="a header"),
    ],
)
def test_http_model_with_credentials_is_refused_behind_a_proxy(config, credentials):
    model = {"baseUrl": "http://models.example.com/v1", "proxyUrl": "http://proxy.example.com:3128"}
    assert config(model=model).model.proxy_url
    with pytest.raises(ValueError, match="baseUrl must be an https address"):
        config(model={**model, **credentials})


async def test_instructions_file_is_read_for_every_message(config, talking, model_port, tmp_path):
    file = mount(tmp_path, "configmaps/prompts/desk", b"Speak of apples.")
    async with (
        run_relay(model_port) as seen,
        talking(
            config(instructions="", instructionsFile=file, model={"baseUrl": f"http://127.0.0.1:{seen.port}/v1"})
        ) as talk,
    ):
        assert (await talk.say("Hello there")).failure is None
        assert b"Speak of apples." in seen.heard
        mount(tmp_path, file, b" \n")
        said = await talk.say("Hello there")
    assert said.failure is not None
    assert said.failure.reason == "instructions_missing"


@pytest.mark.parametrize("wrong", [{}, {"instructionsFile": "configmaps/a/b"}], ids=["neither", "both"])
def test_config_requires_exactly_one_source_of_instructions(config, wrong):
    instructions = "Be brief." if wrong else ""
    with pytest.raises(ValueError, match="exactly one of instructions"):
        config(instructions=instructions, **wrong)
