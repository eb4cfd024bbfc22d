"""Params that a model describes: read, or refused with the name of the field and nothing else of what was sent."""

from collections.abc import Callable
from typing import Any, TypeVar

from a2a.utils.errors import InvalidParamsError
from google.protobuf.json_format import ParseError
from pydantic import BaseModel, ValidationError

from fleetwright_agent.server.dialects.dialect import Params

M = TypeVar("M", bound=BaseModel)


def reader(model: type[M], convert: Callable[[M], Any]) -> Callable[[Params], Any]:
    """What `convert` cannot make a request of is as wrong as what the model does not know."""

    def read(params: Params) -> Any:
        try:
            return convert(model.model_validate(params))
        except ValidationError as error:
            raise InvalidParamsError(f"Invalid params: check {_place(error)}") from None
        except (ParseError, ValueError, TypeError, KeyError, AttributeError, OverflowError):
            raise InvalidParamsError("Invalid params: check the shape of params") from None

    return read


def _place(error: ValidationError) -> str:
    """The field that is wrong, without the names of models that pydantic puts between."""
    steps = min((found["loc"] for found in error.errors(include_input=False)), key=len)
    return ".".join(str(step) for step in steps if isinstance(step, int) or step[:1].islower()) or "the shape of params"
