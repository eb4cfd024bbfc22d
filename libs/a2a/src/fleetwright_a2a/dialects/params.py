"""Reads params with a pydantic model; an error names the invalid field, but never repeats its value."""

from collections.abc import Callable
from typing import Any, TypeVar

from a2a.utils.errors import InvalidParamsError
from google.protobuf.json_format import ParseError
from pydantic import BaseModel, ValidationError

from fleetwright_a2a.dialects.dialect import Params

M = TypeVar("M", bound=BaseModel)


def reader(model: type[M], convert: Callable[[M], Any]) -> Callable[[Params], Any]:
    """Return a reader; errors of the model and errors of `convert` both become InvalidParamsError."""

    def read(params: Params) -> Any:
        try:
            return convert(model.model_validate(params))
        except ValidationError as error:
            raise InvalidParamsError(f"Invalid params: check {_place(error)}") from None
        except (ParseError, ValueError, TypeError, KeyError, AttributeError, OverflowError):
            raise InvalidParamsError("Invalid params: check the shape of params") from None

    return read


def _place(error: ValidationError) -> str:
    """Return the path of the invalid field, without the model names that pydantic inserts."""
    steps = min((found["loc"] for found in error.errors(include_input=False)), key=len)
    return ".".join(str(step) for step in steps if isinstance(step, int) or step[:1].islower()) or "the shape of params"
