"""The exceptions of an operation, as callers see them."""

import pytest
from a2a.utils.errors import InternalError, TaskNotFoundError

from fleetwright_a2a.errors import ServiceUnavailable, operation


class Starting(Exception):  # noqa: N818 - a temporary state
    pass


@operation(Starting)
async def call(error: Exception) -> None:
    raise error


@operation(Starting)
async def stream(error: Exception):
    yield "first"
    raise error


CASES = [
    pytest.param(TaskNotFoundError(), TaskNotFoundError, id="an A2A error stays"),
    pytest.param(Starting("disk /var/lib is not open"), ServiceUnavailable, id="a temporary error is a 503"),
    pytest.param(ValueError("secret"), InternalError, id="any other error is internal"),
]


@pytest.mark.parametrize(("error", "wanted"), CASES)
async def test_operation_raises_only_a2a_errors(error, wanted):
    with pytest.raises(wanted) as raised:
        await call(error)
    assert "disk" not in str(raised.value)
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize(("error", "wanted"), CASES)
async def test_stream_raises_only_a2a_errors(error, wanted):
    with pytest.raises(wanted):
        assert [item async for item in stream(error)] == ["first"]
