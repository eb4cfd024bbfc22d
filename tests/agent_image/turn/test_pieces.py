"""Small functions of the turn, as tables."""

from decimal import Decimal
from functools import partial

import httpx2
import pytest
from langchain_core.messages import AIMessage
from prometheus_client import CollectorRegistry

from fleetwright_agent.config.agent import AgentConfig
from fleetwright_agent.config.layout import Layout
from fleetwright_agent.config.model import Model, Price
from fleetwright_agent.config.tools import Skill
from fleetwright_agent.protocol.frames import Purpose, TurnRequest
from fleetwright_agent.security.caller_roles import ROLES, Role
from fleetwright_agent.telemetry.metrics import Metrics
from fleetwright_agent.tools.port import ToolCall, ToolError
from fleetwright_agent.tools.skills.loading import skill_tools
from fleetwright_agent.turn.cost.usage import CostAccount, cost_usd, entry_of, usage_of
from fleetwright_agent.turn.cost.usage_counters import UsageCounters
from fleetwright_agent.turn.prompt import sub_agent_prompt, system_prompt
from fleetwright_agent.turn.providers.chat_completions.errors import CompletionStatusError
from fleetwright_agent.turn.providers.failures import MalformedToolCall, backoff, classify


def _price(**prices):
    return Price.model_validate(prices)


@pytest.mark.parametrize(
    ("price", "cost"),
    [
        pytest.param(None, None, id="without a price there is no money"),
        pytest.param(
            _price(inputPerMillion="3", outputPerMillion="15"),
            Decimal("0.0045"),
            id="cached tokens cost like fresh ones where no price is declared for them",
        ),
        pytest.param(
            _price(inputPerMillion="3", outputPerMillion="15", cachedInputPerMillion="0.3"),
            Decimal("0.00288"),
            id="cached tokens have their own price",
        ),
    ],
)
def test_cost_usd_depends_on_the_price(price, cost):
    assert cost_usd(price, input_tokens=1000, output_tokens=100, cache_read_tokens=600) == cost


def test_cost_usd_prices_cache_writes_separately():
    price = _price(inputPerMillion="3", outputPerMillion="15", cacheWritePerMillion="3.75")
    assert cost_usd(price, input_tokens=1000, output_tokens=0, cache_write_tokens=400) == Decimal("0.0033")


def _status(status, code=None, headers=None, message="m"):
    return CompletionStatusError(status, message, () if code is None else (code,), headers)


# These two packages take seconds to import, in each process that collects this module.
def _in_stream(kind):
    import anthropic

    response = httpx2.Response(200, request=httpx2.Request("POST", "http://m"))
    body = {"type": "error", "error": {"type": kind, "message": "m"}}
    return anthropic.APIStatusError("m", response=response, body=body)


def _google(status, message):
    from google.genai.errors import ClientError

    return ClientError(status, {"error": {"code": status, "message": message, "status": "S"}})


@pytest.mark.parametrize(
    ("error", "reason", "transient", "overflow"),
    [
        pytest.param(_status(401), "model_unauthorized", False, False, id="401 is a refused key"),
        pytest.param(_status(429), "model_rate_limited", True, False, id="429 may pass"),
        pytest.param(_status(503), "model_error", True, False, id="503 may pass"),
        pytest.param(_status(400), "model_refused_request", False, False, id="another 400 is final"),
        pytest.param(
            _status(400, "context_length_exceeded"), "model_context_overflow", False, True, id="a code says overflow"
        ),
        pytest.param(
            _status(400, None, message="prompt is too long: 9 tokens"), "model_context_overflow", False, True,
            id="words say overflow",
        ),
        *(
            pytest.param(_status(400, message=said), "model_context_overflow", False, True, id=f"{who} say so too")
            for who, said in {
                "Anthropic's words for a large answer":
                    "input length and `max_tokens` exceed context limit: 199759 + 8192 > 200000",
                "llama.cpp's words": "the request exceeds the available context size, try increasing it",
                "xAI's words": "This model's maximum prompt length is 131072 but the request contains 140000 tokens.",
                "Bedrock's words": "Input is too long for requested model.",
            }.items()
        ),
        pytest.param(
            _status(413, None, message="Request exceeds the maximum size"), "model_context_overflow", False, True,
            id="a body that is too large is an overflow",
        ),
        pytest.param(_status(402), "model_unpaid", False, False, id="402 is an account without credit"),
        pytest.param(
            _status(400, None, message="Your credit balance is too low to access the API."), "model_unpaid",
            False, False, id="and so are Anthropic's words",
        ),
        pytest.param(_status(410), "model_error", False, False, id="what is gone is final"),
        pytest.param(partial(_in_stream, "overloaded_error"), "model_error", True, False, id="Anthropic, in a stream"),
        pytest.param(partial(_google, 429, "Quota exceeded."), "model_rate_limited", True, False, id="a 429 of Google"),
        pytest.param(
            partial(_google, 400, "API key not valid. Please pass a valid API key."), "model_unauthorized", False,
            False, id="Google's refused key is a 400",
        ),
        pytest.param(
            partial(_google, 400, "The input token count (9) exceeds the maximum number of tokens allowed (8)."),
            "model_context_overflow", False, True, id="Google's words say overflow",
        ),
        pytest.param(MalformedToolCall("x"), "model_malformed_tool_call", True, False, id="half a call may pass"),
        pytest.param(TimeoutError(), "model_timeout", True, False, id="silence may pass"),
    ],
)  # fmt: skip
def test_classify_maps_provider_errors_to_reasons(error, reason, transient, overflow):
    failure = classify(error() if callable(error) else error)
    assert failure is not None
    assert (failure.reason, failure.transient, failure.overflow) == (reason, transient, overflow)


@pytest.mark.parametrize(
    ("status", "elsewhere"),
    [
        pytest.param(402, True, id="who has no credit here may have some there"),
        pytest.param(410, True, id="a model that is gone is gone here alone"),
        pytest.param(413, False, id="what is too long is shortened first"),
        pytest.param(422, False, id="a request that is refused as such would be refused again"),
    ],
)
def test_classify_decides_whether_a_fallback_may_answer(status, elsewhere):
    failure = classify(_status(status))
    assert failure is not None
    assert failure.elsewhere is elsewhere


def test_classify_ignores_internal_errors():
    assert classify(KeyError("x")) is None


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        pytest.param({"retry-after": "7"}, 7, id="seconds"),
        pytest.param({"retry-after": "3600"}, 60, id="whoever asks for an hour gets a minute"),
        pytest.param(
            {"retry-after": "Sun, 22 Nov 2026 10:00:09 GMT", "date": "Sun, 22 Nov 2026 10:00:00 GMT"}, 9,
            id="a moment, by the provider's own clock",
        ),
        pytest.param({"retry-after": "Sun, 22 Nov 2026 10:00:09 GMT"}, 5, id="a moment by no clock says nothing"),
        pytest.param({"retry-after": "soon"}, 5, id="nor does a word"),
        pytest.param({"retry-after": "inf"}, 5, id="nor does for ever"),
        pytest.param({}, 5, id="who does not say is asked again after five seconds"),
    ],
)  # fmt: skip
def test_classify_reads_retry_after_with_a_limit(headers, seconds):
    failure = classify(_status(429, headers=headers))
    assert failure is not None
    assert failure.retry_after == seconds


def test_backoff_grows_up_to_a_limit():
    assert all(1 <= backoff(1, None) <= 2 for _ in range(50))
    assert all(15 <= backoff(9, None) <= 30 for _ in range(50))
    assert backoff(1, 7.0) == 7.0


def _call(**arguments):
    return ToolCall(arguments, TurnRequest("o", "c", "t", "x"), lambda _: None)


@pytest.fixture
def skill_folder(tmp_path):
    layout = Layout(root=tmp_path)
    folder = layout.skill("guide")
    version = folder / "..2026_01"
    (version / "references").mkdir(parents=True)
    (version / "SKILL.md").write_text("the guide")
    (version / "references" / "more.md").write_text("more of it")
    (version / "manual.md").symlink_to("SKILL.md")
    (version / "long.md").write_text("a" * 50_002 + "z")
    (folder / "..data").symlink_to(version.name)
    (folder / "SKILL.md").symlink_to("..data/SKILL.md")
    for name in ("references", "manual.md", "long.md"):
        (folder / name).symlink_to(f"..data/{name}")
    (tmp_path / "outside.txt").write_text("secret")
    (version / "link.md").symlink_to(tmp_path / "outside.txt")
    skills = [Skill.model_validate({"name": "guide", "description": "d", "digest": "x"})]
    return {tool.name: tool for tool in skill_tools(skills, layout)}


async def test_load_skill_reads_a_kubelet_mount_with_its_files(skill_folder):
    loaded = await skill_folder["load_skill"].run(_call(name="guide"))
    assert "the guide" in loaded
    assert "Files:\nlong.md\nmanual.md\nreferences/more.md\n" in loaded
    assert await skill_folder["read_skill_file"].run(_call(name="guide", path="references/more.md")) == "more of it"


@pytest.mark.parametrize(
    "path",
    [
        pytest.param("../../../../outside.txt", id="dots do not lead out"),
        pytest.param("/etc/passwd", id="an absolute path does not lead out"),
        pytest.param("..data/link.md", id="a link does not lead out"),
    ],
)
async def test_read_skill_file_refuses_a_path_outside_the_skill(skill_folder, path):
    with pytest.raises(ToolError, match="leads out"):
        await skill_folder["read_skill_file"].run(_call(name="guide", path=path))


@pytest.mark.parametrize(
    "path",
    [
        pytest.param("SKILL.md", id="by their name"),
        pytest.param("./references/../SKILL.md", id="by another path"),
        pytest.param("..data/SKILL.md", id="through a link of the kubelet"),
        pytest.param("manual.md", id="through a link of the skill's own"),
    ],
)
async def test_read_skill_file_refuses_the_instructions(skill_folder, path):
    with pytest.raises(ToolError, match="use load_skill"):
        await skill_folder["read_skill_file"].run(_call(name="guide", path=path))


async def test_read_skill_file_pages_long_files(skill_folder):
    async def read(tool: str, **about: object) -> str:
        return await skill_folder[tool].run(_call(name="guide", **about))

    first = await read("read_skill_file", path="long.md")
    assert first == "a" * 50_000 + "\n[cut: 50003 characters in all; go on with offset 50000]"
    assert await read("read_skill_file", path="long.md", offset=50_000) == "aaz"
    with pytest.raises(ToolError, match="50003 characters"):
        await read("read_skill_file", path="long.md", offset=50_003)
    assert ">\nguide\n" in await read("load_skill", offset=4)
    schema = skill_folder["read_skill_file"].parameters
    assert (schema["required"], schema["properties"]["offset"]["minimum"]) == (["name", "path"], 0)


async def test_read_skill_file_reports_an_unreadable_file(tmp_path, skill_folder):
    broken = Layout(root=tmp_path).skill("guide") / "loop.md"
    broken.symlink_to("x" * 300)
    with pytest.raises(ToolError, match="cannot be read just now: File name too long"):
        await skill_folder["read_skill_file"].run(_call(name="guide", path="loop.md"))


async def test_read_skill_file_reports_a_missing_file(skill_folder):
    with pytest.raises(ToolError, match="has no file"):
        await skill_folder["read_skill_file"].run(_call(name="guide", path="nothing.md"))


def test_system_prompt_has_a_fixed_order_and_no_memory():
    config = AgentConfig.model_validate(
        {
            "version": 1, "revision": "r", "name": "a", "namespace": "n", "instructions": "Be the desk.", "url": "u",
            "model": {"name": "m", "baseUrl": "u", "contextWindow": 10, "maxOutputTokens": 1, "timeoutSeconds": 1},
            "skills": [{"name": "guide", "description": "how to", "digest": "d"}],
            "declaredSkills": [{"name": "haiku", "description": "writes a poem of three lines"}],
            "peers": [{"name": "cook", "namespace": "n", "url": "u"}],
        }
    )  # fmt: skip
    prompt = system_prompt(config, "Be the desk.", {"orders": "down"})
    places = [prompt.index(word) for word in ("Be the desk.", "# Skills", "# Offered", "# Peers", "# Rules", "orders")]
    assert places == sorted(places)
    assert "- haiku: writes a poem of three lines" in prompt
    assert system_prompt(config, "Be the desk.", {}) == prompt[: prompt.index("\n\n# Now")]
    restricted = system_prompt(config, "Be the desk.", {"orders": "down"}, ROLES[Role.NO_DELEGATION])
    assert restricted.removeprefix(prompt) == (
        "\n\n# Caller\nFor this caller you may not: ask other agents. Such calls are blocked; say so instead of trying."
    )


@pytest.mark.parametrize(
    ("role", "says"),
    [
        (Role.UNRESTRICTED, ""),
        (Role.NO_APPROVAL, "may not: make calls that need the approval of a person."),
        (Role.MEMORY_READ_ONLY, "may not: remember or forget anything."),
        (Role.READ_ONLY, "remember or forget anything, use tools that change something. Such calls are blocked"),
    ],
)
def test_prompt_of_a_sub_agent_ends_with_the_restrictions(role, says):
    plain, restricted = sub_agent_prompt("Count.", {}), sub_agent_prompt("Count.", {}, ROLES[role])
    assert restricted.startswith(plain)
    assert says in restricted
    assert bool(says) == (restricted != plain)


def test_usage_of_a_reply_without_counts_has_no_cost():
    price = {"inputPerMillion": "1", "outputPerMillion": "1"}
    model = {
        "name": "m",
        "baseUrl": "u",
        "contextWindow": 10,
        "maxOutputTokens": 1,
        "timeoutSeconds": 1,
        "price": price,
    }
    metrics = Metrics(CollectorRegistry())
    usage = usage_of(AIMessage("hi"), CostAccount("m", Model.model_validate(model).price, Purpose.ANSWER))
    UsageCounters(metrics).count(entry_of(usage, "client:a"), estimated=usage.estimated)
    assert usage.cost_usd is None
    assert metrics.registry.get_sample_value("fleetwright_llm_unpriced_calls_total", {"model": "m"}) == 1
