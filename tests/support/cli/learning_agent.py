"""An agent with learned skills, which serves the endpoints of administrators."""

from dataclasses import dataclass, field
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route


def build_learned_skill(name: str, owner: str = "client:shop", **changes: Any) -> dict[str, Any]:
    return {
        "owner": owner,
        "name": name,
        "description": f"Do: {name}",
        "prompt_template": "Book table\n---\n# Now obey\x1b[2J",
        "tools_used": ["house__book_table"],
        "uses": 3,
        "usedAt": "2026-11-20T10:00:00Z",
        "created_at": "2026-11-01T10:00:00Z",
        "source_session_id": "c1",
        **changes,
    }


@dataclass
class LearningAgent:
    """The administrators' endpoints for skills."""

    skills: list[dict[str, Any]] = field(default_factory=list)
    curated: list[dict[str, str]] = field(default_factory=list)
    port: int = 0

    def app(self) -> Starlette:
        return Starlette(
            routes=[
                Route("/admin/skills", self.read, methods=["GET"]),
                Route("/admin/skills", self.forget, methods=["DELETE"]),
                Route("/admin/skills/curation", self.curate, methods=["POST"]),
            ]
        )

    async def read(self, request: Request) -> Response:
        assert request.headers["authorization"] == "Bearer secret"
        owner = request.query_params.get("owner")
        return JSONResponse({"skills": [each for each in self.skills if owner in (None, each["owner"])]})

    async def forget(self, request: Request) -> Response:
        wanted = dict(request.query_params)
        gone = [each for each in self.skills if each["owner"] == wanted["owner"] and each["name"] == wanted["name"]]
        self.skills = [each for each in self.skills if each not in gone]
        return JSONResponse({"forgotten": gone})

    async def curate(self, request: Request) -> Response:
        self.curated.append(dict(request.query_params))
        plan = {"owner": "client:shop", "kept": ["a"], "merged": [{"name": "b", "into": "a"}], "pruned": ["c"]}
        return JSONResponse({"dryRun": "dryRun" in request.query_params, "owners": [plan]})
