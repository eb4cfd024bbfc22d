"""The administrators' endpoints for learned skills: list them, forget one, and run the curator now."""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from fleetwright_a2a.errors import HttpRefusal, refuse
from fleetwright_agent.audit.trail import AuditFailed, AuditTrail
from fleetwright_agent.memory.curator import Curator
from fleetwright_agent.server.admin.access import OWNER_RULE, AdministratorAccess, is_plain, owner_of, who
from fleetwright_agent.storage.errors import MemoryUnusable
from fleetwright_agent.storage.learned_skills import CurationResult, LearnedSkill, LearnedSkillStore, Plan, skill_v1

_logger = logging.getLogger(__name__)
SKILLS_PATH: Final = "/admin/skills"
CURATION_PATH: Final = "/admin/skills/curation"
FORGOTTEN: Final = "skill_forgotten"
_LATER: Final = "The learned skills cannot be used right now; try again."
_UNCACHED: Final = {"Cache-Control": "no-store"}


class SkillAdministration:
    def __init__(
        self,
        access: AdministratorAccess,
        skills: LearnedSkillStore,
        *,
        curator: Curator,
        enabled: bool,
        audit_trail: AuditTrail,
    ) -> None:
        """Args: `enabled` is whether the agent learns skills; only then may the curator run."""
        self._access = access
        self._skills = skills
        self._curator = curator
        self._enabled = enabled
        self._audit_trail = audit_trail

    @property
    def routes(self) -> list[Route]:
        return [
            Route(SKILLS_PATH, self._list, methods=["GET"]),
            Route(SKILLS_PATH, self._forget, methods=["DELETE"]),
            Route(CURATION_PATH, self._curate, methods=["POST"]),
        ]

    async def _list(self, request: Request) -> Response | HttpRefusal:
        parameters = self._access.parameters(request, ("owner",))
        if isinstance(parameters, HttpRefusal):
            return parameters
        owner = owner_of(parameters.get("owner", ""))
        if owner is None and "owner" in parameters:
            return refuse(400, f"{OWNER_RULE}.")
        try:
            found = await self._inventory()
        except (MemoryUnusable, OSError) as error:
            return _unusable(error)
        rows = [_row(each.owner, skill) for each in found for skill in each.plan.kept if owner in (None, each.owner)]
        return JSONResponse({"skills": rows}, headers=_UNCACHED)

    async def _forget(self, request: Request) -> Response | HttpRefusal:
        parameters = self._access.parameters(request, ("owner", "name"))
        if isinstance(parameters, HttpRefusal):
            return parameters
        owner, name = owner_of(parameters.get("owner", "")), parameters.get("name", "")
        if owner is None or not name or not is_plain(name):
            return refuse(400, f"{OWNER_RULE}, and name must be the name of a skill.")

        def forget(skills: Sequence[LearnedSkill]) -> Plan:
            gone = tuple(each for each in skills if each.source.said_by == owner and each.draft.name == name)
            return Plan(kept=tuple(each for each in skills if each not in gone), pruned=gone)

        try:
            if not await self._planned(forget, dry_run=True):
                return refuse(404, f"{owner} has no learned skill {name[:64]!r}.")
            await self._audit_trail.require(FORGOTTEN, {"skill": name, "skill_owner": owner, "by": who(request)})
            gone = await self._planned(forget, dry_run=False)
        except (MemoryUnusable, OSError, AuditFailed) as error:
            return _unusable(error)
        return JSONResponse({"forgotten": [_row(owner, skill) for skill in gone]})

    async def _curate(self, request: Request) -> Response | HttpRefusal:
        parameters = self._access.parameters(request, ("dryRun",))
        if isinstance(parameters, HttpRefusal):
            return parameters
        if parameters.get("dryRun", "false") not in {"true", "false"}:
            return refuse(400, "dryRun must be true or false.")
        if not self._enabled:
            return refuse(409, "This agent does not learn skills; set memory.skills.enabled to true.")
        dry_run = parameters.get("dryRun") == "true"
        try:
            found = await self._curator.curate(by=who(request), dry_run=dry_run)
        except (MemoryUnusable, OSError) as error:
            return _unusable(error)
        return JSONResponse({"dryRun": dry_run, "owners": [_curated(each) for each in found]})

    async def _planned(self, plan: Callable[[Sequence[LearnedSkill]], Plan], *, dry_run: bool) -> list[LearnedSkill]:
        """Return the skills of all owners that the plan prunes."""
        found = [await self._skills.curate(key, plan, dry_run=dry_run) for key in await self._keys()]
        return [skill for each in found if each is not None for skill in each.plan.pruned]

    async def _keys(self) -> list[str]:
        return await asyncio.to_thread(self._skills.owners)

    async def _inventory(self) -> list[CurationResult]:
        """Return the skills of every owner. A dry run that keeps all of them reads an owner's file at once."""
        found = [
            await self._skills.curate(key, lambda skills: Plan(kept=tuple(skills)), dry_run=True)
            for key in await self._keys()
        ]
        return sorted((each for each in found if each is not None), key=lambda each: each.owner)


def _row(owner: str, skill: LearnedSkill) -> dict[str, Any]:
    used = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(skill.used))
    return {"owner": owner, "usedAt": used, "uses": skill.uses, **skill_v1(skill)}


def _curated(result: CurationResult) -> Mapping[str, Any]:
    plan = result.plan
    return {
        "owner": result.owner,
        "kept": [skill.draft.name for skill in plan.kept],
        "merged": [{"name": merge.skill.draft.name, "into": merge.into} for merge in plan.merged],
        "pruned": [skill.draft.name for skill in plan.pruned],
    }


def _unusable(error: Exception) -> HttpRefusal:
    _logger.error("the learned skills cannot be used", exc_info=error)
    return refuse(503, _LATER, headers={"Retry-After": "10"})
