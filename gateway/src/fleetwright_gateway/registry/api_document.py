"""The parts of the OpenAPI document for routes that FastAPI does not serve: the proxy and the token exchange."""

from typing import Any, Final

from fastapi import FastAPI

_JWT: Final = "urn:ietf:params:oauth:token-type:jwt"
_GRANT: Final = "urn:ietf:params:oauth:grant-type:token-exchange"
_PROXY: Final = "/agents/{namespace}/{name}"
_SCHEME: Final = "bearer"
_PERSON: Final = "A Kubernetes token with the gateway's audience, or a client token of the agent."
_VERSIONS: Final = (
    " Requests in a version that the agent's card lists pass unchanged. For an agent with A2A 1.0, requests of 0.3, 0.2"
    " and 0.1 are translated, except push notifications (-32003). The gateway answers calls for the extended card"
    " itself."
)
_PROBLEMS: Final = {
    "308": "Another agent has replaced this one. Location has its URL.",
    "400": "A header or the body is not valid.",
    "401": "The credential is missing or not accepted.",
    "402": "The budget of the agent is used up. Retry-After has the seconds until its reset.",
    "403": "The delegation or the origin of the request is not accepted.",
    "404": "There is no such agent, or this caller may not call it.",
    "405": "The gateway does not forward this method.",
    "410": "Another agent has replaced this one, and this caller may not call the successor.",
    "413": "The body is larger than one mebibyte.",
    "431": "The headers are too large.",
    "429": "The caller sends too many requests. Retry-After says when to try again.",
    "502": "The agent cannot be reached, or did not answer completely.",
    "503": "The agent does not serve at the moment, or the gateway is not ready. Retry-After says when to try again.",
    "504": "The agent did not answer in time.",
}


def describe_routes(app: FastAPI) -> None:
    """Add the other routes of the traffic port to the OpenAPI document of the application."""
    generate = app.openapi

    def document() -> dict[str, Any]:
        found = generate()
        found["paths"] |= _paths()
        schemes = found.setdefault("components", {}).setdefault("securitySchemes", {})
        schemes[_SCHEME] = {"type": "http", "scheme": "bearer", "description": _PERSON}
        return found

    app.openapi = document  # type: ignore[method-assign]  # FastAPI documents this way to extend the schema


def _paths() -> dict[str, Any]:
    place = [_parameter(name, "path", required=True) for name in ("namespace", "name")]
    body = {"required": True, "content": {"application/json": {"schema": {"type": "object"}}}}
    below = [*place, _parameter("path", "path", required=True, text="A path of A2A over HTTP+JSON, such as tasks.")]
    return {
        f"{_PROXY}/a2a": {
            "parameters": [*place, *_headers()],
            "post": _passed(
                "Send an A2A request over JSON-RPC to the agent", {"requestBody": body}, versions=_VERSIONS
            ),
        },
        f"{_PROXY}/.well-known/agent-card.json": {
            "parameters": place,
            "get": _passed("The signed A2A card of the agent at the gateway", {}, wakes=False),
        },
        f"{_PROXY}/{{path}}": {
            "parameters": [*below, *_headers()],
            "get": _passed("Read from the agent over HTTP+JSON", {}),
            "post": _passed("Send an A2A request over HTTP+JSON to the agent", {"requestBody": body}),
            "delete": _passed("Delete at the agent over HTTP+JSON", {}),
        },
        "/oauth/token": {"post": _exchange()},
    }


def _passed(summary: str, more: dict[str, Any], *, wakes: bool = True, versions: str = "") -> dict[str, Any]:
    unchanged = "" if versions else ", unchanged"
    text = f"The answer of the agent{unchanged}; JSON or server-sent events." if wakes else "The card."
    waits = "A message, or a request about tasks, wakes a sleeping agent and waits for it." if wakes else ""
    return {
        "tags": ["agents"],
        "summary": summary,
        **({"description": f"{waits}{versions}"} if waits else {}),
        **more,
        "responses": {"200": {"description": text}, **{code: {"description": why} for code, why in _PROBLEMS.items()}},
        "security": [{_SCHEME: []}],
    }


def _headers() -> list[dict[str, Any]]:
    return [
        _parameter(
            "A2A-Version", "header", text="The version of A2A: 1.0, 0.3 or 0.1. Without it, the method decides."
        ),
        _parameter("X-Timeout", "header", text="Idle timeout in seconds for the agent's response; 0 means no limit."),
        _parameter("Fleetwright-Repair", "header", text="`envelope` completes the JSON-RPC envelope of the body."),
        _parameter("Fleetwright-Delegation", "header", text="The delegation with which an agent acts for a principal."),
        _task_parameter(),
    ]


def _exchange() -> dict[str, Any]:
    fields = {
        "grant_type": {"type": "string", "enum": [_GRANT]},
        "subject_token": {"type": "string", "description": "The delegation of the task, or the token of the pod."},
        "subject_token_type": {"type": "string", "enum": [_JWT]},
        "actor_token": {"type": "string", "description": "The token of the pod, if the subject is a delegation."},
        "actor_token_type": {"type": "string", "enum": [_JWT]},
        "audience": {"type": "string", "description": "<namespace>/<name> of the agent to call, or its URL here."},
        "audience_task": {
            "type": "string",
            "maxLength": 128,
            "description": "The task of the called agent that the message will continue. Leave it out to begin a task.",
        },
    }
    needed = ["grant_type", "subject_token", "subject_token_type", "audience"]
    form = {"schema": {"type": "object", "required": needed, "properties": fields}}
    answers = {
        "200": "access_token, issued_token_type, token_type (DPoP), expires_in and delegation.",
        "400": "error and error_description (RFC 6749). `use_dpop_nonce` comes with the header DPoP-Nonce.",
        "413": "The body is too large.",
        "429": "Too many requests.",
        "503": "The gateway cannot issue a token at the moment.",
    }
    return {
        "tags": ["tokens"],
        "summary": "Exchange the token of an agent's pod for a token for a direct call (RFC 8693)",
        "parameters": [
            _parameter("DPoP", "header", required=True, text="A proof of the caller's key (RFC 9449)."),
            _task_parameter(),
        ],
        "requestBody": {"required": True, "content": {"application/x-www-form-urlencoded": form}},
        "responses": {code: {"description": text} for code, text in answers.items()},
    }


def _task_parameter() -> dict[str, Any]:
    text = "The task to which the delegation belongs, percent-encoded. A request with a delegation needs this header."
    return _parameter("Fleetwright-Task", "header", text=text)


def _parameter(name: str, place: str, *, required: bool = False, text: str = "") -> dict[str, Any]:
    about = {"description": text} if text else {}
    return {"name": name, "in": place, "required": required, "schema": {"type": "string"}, **about}
