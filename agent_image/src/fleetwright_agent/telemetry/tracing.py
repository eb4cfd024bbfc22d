"""What the runtime tells of its work as it does it: spans within spans, by the GenAI names of OpenTelemetry.

The port, and what stands behind it where nobody collects. Names and numbers only: no span holds what a caller, a
model or a tool said.
"""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import Protocol

Value = str | int | float | bool
_OPEN: ContextVar[Mapping[str, str] | None] = ContextVar("the span that is open", default=None)


def here() -> Mapping[str, str]:
    """The recorded span that is open, as `traceId` and `spanId`, for whoever is called; nothing where none is."""
    return _OPEN.get() or {}


@contextmanager
def being(span: Mapping[str, str] | None) -> Iterator[None]:
    """Within it that span is the one that is open."""
    before = _OPEN.set(span)
    try:
        yield
    finally:
        _OPEN.reset(before)


def traceparent() -> str:
    """`here` as the W3C's header has it; nothing where no span is open."""
    span = here()
    return f"00-{span['traceId']}-{span['spanId']}-01" if span else ""


class Span(Protocol):
    def tell(self, attributes: Mapping[str, Value]) -> None: ...

    def fail(self, kind: str) -> None:
        """It came to no good end; `kind` is a word, such as `model_unauthorized`."""


class Tracing(Protocol):
    def span(
        self, name: str, attributes: Mapping[str, Value], *, of: Mapping[str, str] | None = None, calls: bool = False
    ) -> AbstractContextManager[Span]:
        """A part of the span that is open around it, until its block is left.

        Args:
            of: The trace that it goes on, as `traceId` and `spanId`; only where it is the outermost here.
            calls: Whether it is a call of something outside.
        """

    async def aclose(self) -> None:
        """What was not sent yet is."""


class _Nobody:
    def tell(self, attributes: Mapping[str, Value]) -> None:
        pass

    def fail(self, kind: str) -> None:
        pass


class Untold:
    """Where nobody collects."""

    @contextmanager
    def span(self, *_: object, **__: object) -> Iterator[Span]:
        yield _NOBODY

    async def aclose(self) -> None:
        pass


_NOBODY = _Nobody()
UNTOLD = Untold()
