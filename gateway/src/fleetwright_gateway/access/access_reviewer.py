"""Asks the API server whether a person may call agents (SubjectAccessReview), cached for at most 30 seconds.

One review without a name covers a whole namespace. Permissions that name single agents are asked for one by one, and
only for requests that name the agent. A list asks about several namespaces at a time.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Collection, Hashable, Iterable
from typing import Final

from fleetwright_a2a.clock import Clock
from fleetwright_api import names
from fleetwright_gateway.identity.errors import ReviewUnavailable
from fleetwright_gateway.identity.principals import User
from fleetwright_kube.informer import TRANSIENT_ERRORS
from fleetwright_kube.port import Api, Object, Resource

ACCESS_REVIEWS: Final = Resource(
    kind="SubjectAccessReview",
    group="authorization.k8s.io",
    version="v1",
    plural="subjectaccessreviews",
    namespaced=False,
)
_SECONDS: Final = 30.0
_MOST_ENTRIES: Final = 16_384
_MOST_AT_ONCE: Final = 8
"""The reviews of one list that run at the same time."""
Key = tuple[Hashable, ...]
"""Everything on which the answer depends."""


class AccessReviewer:
    def __init__(self, api: Api, *, clock: Clock) -> None:
        self._api = api
        self._clock = clock
        self._entries: OrderedDict[Key, tuple[bool, float]] = OrderedDict()
        self._running: dict[Key, asyncio.Task[bool]] = {}

    async def may_invoke(self, user: User, namespace: str, name: str) -> bool:
        """Return whether the user may call this agent.

        Raises:
            ReviewUnavailable: The API server did not answer.
        """
        return await self.may_invoke_all(user, namespace) or await self._reviewed(user, namespace, name)

    async def may_invoke_all(self, user: User, namespace: str) -> bool:
        """Return whether the user may call every agent of the namespace."""
        return await self._reviewed(user, namespace, "")

    async def invocable(self, user: User, namespaces: Iterable[str]) -> Collection[str]:
        """Return those of the namespaces in which the user may call every agent.

        Raises:
            ReviewUnavailable: The API server did not answer.
        """
        who, allowed, unknown = _identity(user), set(), []
        for namespace in sorted(namespaces):
            known = self._known((*who, namespace, ""))
            if known is None:
                unknown.append(namespace)
            elif known:
                allowed.add(namespace)
        waiting = iter(unknown)

        async def ask() -> None:
            for namespace in waiting:  # All workers take from this iterator.
                if await self.may_invoke_all(user, namespace):
                    allowed.add(namespace)

        workers = [asyncio.ensure_future(ask()) for _ in unknown[:_MOST_AT_ONCE]]
        try:
            await asyncio.gather(*workers)
        finally:
            for worker in workers:
                worker.cancel()
        return allowed

    async def _reviewed(self, user: User, namespace: str, name: str) -> bool:
        key = (*_identity(user), namespace, name)
        known = self._known(key)
        if known is not None:
            return known
        task = self._running.get(key)
        if task is None:
            task = self._running[key] = asyncio.create_task(self._ask(key, user, namespace, name))
            task.add_done_callback(lambda done: self._ended(key, done))
        return await asyncio.shield(task)

    def _known(self, key: Key) -> bool | None:
        """Return the cached answer; None if there is none, or if it is too old."""
        entry = self._entries.get(key)
        if entry is None or self._clock.monotonic() >= entry[1]:
            return None
        self._entries.move_to_end(key)
        return entry[0]

    def _ended(self, key: Key, task: "asyncio.Task[bool]") -> None:
        self._running.pop(key, None)
        if not task.cancelled():
            task.exception()  # Reading the error stops asyncio from logging it if no request waits any more.

    async def _ask(self, key: Key, user: User, namespace: str, name: str) -> bool:
        attributes = {
            "group": names.GROUP,
            "version": names.VERSION,
            "resource": "agents",
            "subresource": "invoke",
            "verb": "create",
            "namespace": namespace,
            **({"name": name} if name else {}),
        }
        body: Object = {
            "apiVersion": ACCESS_REVIEWS.api_version,
            "kind": ACCESS_REVIEWS.kind,
            "metadata": {"namespace": ""},
            "spec": {
                "user": user.username,
                **({"uid": user.uid} if user.uid else {}),
                "groups": list(user.groups),
                "extra": {extra: list(values) for extra, values in user.extra.items()},
                "resourceAttributes": attributes,
            },
        }
        try:
            answer = await self._api.create(ACCESS_REVIEWS, body)
        except TRANSIENT_ERRORS:
            raise ReviewUnavailable from None
        status = answer.get("status") or {}
        allowed = status.get("allowed") is True and status.get("denied") is not True
        self._entries[key] = (allowed, self._clock.monotonic() + _SECONDS)
        self._entries.move_to_end(key)
        while len(self._entries) > _MOST_ENTRIES:
            self._entries.popitem(last=False)
        return allowed


def _identity(user: User) -> Key:
    extra = tuple((key, tuple(values)) for key, values in sorted(user.extra.items()))
    return user.username, user.uid, user.groups, extra
