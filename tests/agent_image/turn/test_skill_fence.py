"""Tools that a loaded skill allows: those in its SKILL.md, and those that only read skills or ask a person."""

import pytest
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from fleetwright_agent.turn.pipeline.tool.skill_fence import SkillFence, allowed_tools


def document(allowed: str = "") -> str:
    field = f"allowed-tools: {allowed}\n" if allowed else ""
    return f"---\nname: s\ndescription: d\n{field}---\nDo it so."


MOUNTED = {
    "strict": document("orders__look_up"),
    "wide": document("orders/* ask_cook"),
    "free": document(),
    "broken": "---\nname: [\n---\n",
}


def load(*names, status="success"):
    calls = [{"name": "load_skill", "args": {"name": name}, "id": name} for name in names]
    results = [ToolMessage("…", tool_call_id=name, status=status) for name in names]
    return [AIMessage("", tool_calls=calls), *results]


HELLO = HumanMessage("Hello")


@pytest.mark.parametrize(
    ("messages", "tool", "blocked"),
    [
        pytest.param([HELLO], "orders__refund", False, id="without a skill everything"),
        pytest.param([HELLO, *load("free")], "orders__refund", False, id="a skill that names no tools shuts none"),
        pytest.param([HELLO, *load("strict")], "orders__look_up", False, id="what the skill names"),
        pytest.param([HELLO, *load("strict")], "orders__refund", True, id="what it does not name is shut"),
        pytest.param([HELLO, *load("strict")], "read_skill_file", False, id="the skill's own files are always read"),
        pytest.param([HELLO, *load("strict")], "ask_human", False, id="the caller may always be asked"),
        pytest.param([HELLO, *load("strict", "free")], "orders__refund", True, id="a free skill lifts no fence"),
        pytest.param([HELLO, *load("strict", "wide")], "orders__refund", False, id="of two skills each adds its tools"),
        pytest.param([HELLO, *load("wide")], "ask_cook", False, id="a name after a pattern"),
        pytest.param([HELLO, *load("wide")], "stock__count", True, id="another server than the pattern's"),
        pytest.param([HELLO, *load("strict", status="error")], "orders__refund", False, id="a load that failed"),
        pytest.param([HELLO, *load("strict"), HELLO], "orders__refund", False, id="until the caller's next message"),
        pytest.param([HELLO, *load("gone")], "orders__refund", False, id="a skill that is no longer mounted"),
        pytest.param([HELLO, *load("broken")], "orders__refund", True, id="fields that cannot be read allow nothing"),
        pytest.param([HELLO, *load("unreadable")], "orders__refund", True, id="nor does a file that cannot be"),
    ],
)
def test_skill_fence_blocks_tools_outside_the_loaded_skill(messages, tool, blocked):
    assert (SkillFence(MOUNTED.get, mounted=[*MOUNTED, "unreadable"]).refusal(tool, messages) is not None) is blocked


def test_skill_fence_refusal_names_the_skill_and_its_tools():
    refusal = SkillFence(MOUNTED.get, mounted=[*MOUNTED, "unreadable"]).refusal(
        "orders__refund", [HELLO, *load("strict")]
    )
    assert str(refusal) == "orders__refund is not allowed while the skill strict is followed; it allows orders__look_up"


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        pytest.param(document("a b"), {"a", "b"}, id="names separated by spaces"),
        pytest.param(document("orders/look_up"), {"orders__look_up"}, id="a server and its tool"),
        pytest.param(document(), None, id="no such field"),
        pytest.param("Just text.", None, id="no fields at all"),
        pytest.param("---\nname: s\n", set(), id="fields without an end"),
        pytest.param('---\nallowed-tools: ""\n---\n', set(), id="an empty list"),
    ],
)
def test_allowed_tools_are_read_from_the_document(text, wanted):
    assert allowed_tools(text) == wanted
