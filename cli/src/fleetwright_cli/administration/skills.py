"""The learned skills of an agent: their tables, and the Skill object that a learned skill becomes. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import yaml

from fleetwright_api import names
from fleetwright_api.skill_document import DOCUMENT, read_skill
from fleetwright_cli.cluster.tables import render, visible
from fleetwright_cli.safe_text import safe_text

SKILLS_PATH: Final = "/admin/skills"
CURATION_PATH: Final = "/admin/skills/curation"
_DESCRIPTION: Final = 60
Json = Mapping[str, Any]


class SkillNotChosen(ValueError):  # noqa: N818 - names what the command line lacks
    """The options name no learned skill, or several."""


def choose_skill(skills: Sequence[Json], name: str) -> Json:
    """Return the learned skill with this name. Raises: SkillNotChosen."""
    found = [each for each in skills if each.get("name") == name]
    if not found:
        raise SkillNotChosen(f"the agent has learned no skill {name!r}; `skills ls` lists them")
    if len(found) > 1:
        owners = ", ".join(str(each.get("owner")) for each in found)
        raise SkillNotChosen(f"several owners have a skill {name!r}: {owners}; choose one with --owner")
    return found[0]


def skills_table(skills: Sequence[Json]) -> str:
    """Return a row for each learned skill."""
    rows = [("OWNER", "NAME", "USES", "USED", "TOOLS", "DESCRIPTION")]
    for each in skills:
        about = visible(str(each.get("description", "")))
        rows.append(
            (
                visible(str(each.get("owner", "-"))),
                visible(str(each.get("name", "-"))),
                str(each.get("uses", "-")),
                visible(str(each.get("usedAt", "-")))[:10],
                visible(", ".join(map(str, each.get("tools_used") or ()))) or "-",
                about if len(about) <= _DESCRIPTION else f"{about[: _DESCRIPTION - 1]}…",
            )
        )
    return render(rows)


def skill_text(skill: Json) -> str:
    """Return everything that is known of one learned skill."""
    keys = ("name", "owner", "description", "tools_used", "uses", "usedAt", "created_at", "source_session_id")
    labels = {"tools_used": "tools", "usedAt": "used", "created_at": "learned", "source_session_id": "conversation"}
    rows = [(labels.get(key, key), _cell(skill[key])) for key in keys if key in skill]
    return f"{render(rows)}\n\n{safe_text(str(skill.get('prompt_template', '')))}"


def skill_manifest(skill: Json, *, name: str | None, namespace: str | None) -> dict[str, Any]:
    """Return the Skill object with the content of a learned skill.

    Args: `name` replaces the name of the learned skill.

    Raises: InvalidSkill: The content breaks a rule of the Agent Skills specification, for example the name.
    """
    chosen = name or str(skill.get("name", ""))
    files = {DOCUMENT: _document(skill, chosen)}
    read_skill(chosen, files)
    metadata = {"name": chosen, **({"namespace": namespace} if namespace else {})}
    return {
        "apiVersion": names.API_VERSION,
        "kind": names.SKILL,
        "metadata": metadata,
        "spec": {"source": {"inline": {"files": files}}},
    }


def plan_text(plan: Json) -> str:
    """Return the result of a curation for people."""
    rows = [("OWNER", "SKILL", "KEPT" if plan.get("dryRun") is not True else "WOULD BE", "INTO")]
    for each in plan.get("owners") or ():
        owner = visible(str(each.get("owner")))
        rows += [(owner, visible(str(name)), "kept", "") for name in each.get("kept") or ()]
        rows += [(owner, visible(str(m["name"])), "merged", visible(str(m["into"]))) for m in each.get("merged") or ()]
        rows += [(owner, visible(str(name)), "pruned", "") for name in each.get("pruned") or ()]
    return render(rows)


def _document(skill: Json, name: str) -> str:
    """Return SKILL.md. The task is a quotation, so that its lines cannot become headings of the document."""
    description = " ".join(str(skill.get("description", "")).split())
    head = yaml.safe_dump({"name": name, "description": description}, sort_keys=False, allow_unicode=True)
    task = safe_text(str(skill.get("prompt_template", ""))).strip()
    quoted = "\n".join(f"> {line}".rstrip() for line in task.splitlines())
    tools = "\n".join(f"{number}. `{tool}`" for number, tool in enumerate(skill.get("tools_used") or (), start=1))
    used = f"\n\nThese tools did it, in this order:\n\n{tools}" if tools else ""
    return f"---\n{head}---\n# {name}\n\nA task of this kind was done before:\n\n{quoted}{used}\n"


def _cell(value: Any) -> str:
    return visible(", ".join(map(str, value)) if isinstance(value, list) else str(value))
