"""The tracing interface and its no-op implementation. Spans use the names of OpenTelemetry's GenAI conventions.

Spans contain names and numbers only, never text of a caller, a model or a tool.
"""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import Protocol

Value = str | int | float | bool
_OPEN: ContextVar[Mapping[str, str] | None] = ContextVar("the span that is open", default=None)


def current_trace() -> Mapping[str, str]:
    """Return the current span as `traceId` and `spanId`, for outgoing requests; empty if no span is recorded."""
    return _OPEN.get() or {}


@contextmanager
def use_span(span: Mapping[str, str] | None) -> Iterator[None]:
    """Make a span the current one within the block."""
    before = _OPEN.set(span)
    try:
        yield
    finally:
        _OPEN.reset(before)


def traceparent() -> str:
    """Return the current span as a W3C `traceparent` header; an empty text if no span is open."""
    span = current_trace()
    return f"00-{span['traceId']}-{span['spanId']}-01" if span else ""


class Span(Protocol):
    def tell(self, attributes: Mapping[str, Value]) -> None: ...

    def fail(self, kind: str) -> None:
        """Mark the span as failed; `kind` is an identifier, such as `model_unauthorized`."""


class Tracing(Protocol):
    def span(
        self, name: str, attributes: Mapping[str, Value], *, of: Mapping[str, str] | None = None, calls: bool = False
    ) -> AbstractContextManager[Span]:
        """Open a child of the current span for the duration of the block.

        Args:
            of: The caller's trace to continue, as `traceId` and `spanId`; used for the outermost span only.
            calls: True if the span is a request to another service.
        """

    async def aclose(self) -> None:
        """Send the remaining spans, and close."""


class _Nobody:
    def tell(self, attributes: Mapping[str, Value]) -> None:
        pass

    def fail(self, kind: str) -> None:
        pass


class NoTracing:
    """The no-op implementation, used if no trace collector is configured."""

    @contextmanager
    def span(self, *_: object, **__: object) -> Iterator[Span]:
        yield _NOBODY

    async def aclose(self) -> None:
        pass


_NOBODY = _Nobody()
UNTOLD = NoTracing()
