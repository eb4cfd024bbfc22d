"""The base class of the configuration's parts, and shared field types."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StringConstraints
from pydantic.alias_generators import to_camel

DnsLabel = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", max_length=63)]
Fraction = Annotated[Decimal, Field(gt=0, le=1)]


class Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=to_camel)


def checked_schema(value: Mapping[str, Any]) -> Mapping[str, Any]:
    # Imported lazily: most agents have no schema.
    import jsonschema

    try:
        jsonschema.Draft202012Validator.check_schema({"type": "object", **value})
    except jsonschema.SchemaError as error:
        raise ValueError(f"it is not a valid JSON Schema: {error.message}") from None
    return value
