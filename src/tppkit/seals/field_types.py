"""Check the values of a dataclass against its annotations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from types import UnionType
from typing import TYPE_CHECKING, Any, get_args, get_origin, get_type_hints

from tppkit.errors import ConfigurationError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


@cache
def types_of(row: type) -> Mapping[str, Any]:
    """The types of the fields of a dataclass by name: classes, tuples of classes, or unions."""
    return get_type_hints(row)


def require_field_types(row: DataclassInstance) -> None:
    """Reject a dataclass with a value of the wrong type.

    Otherwise a text instead of a tuple, such as `("psu-id")` without its comma, would be read letter by letter.

    Args:
        row: a dataclass whose annotations are classes, tuples of classes, or unions.

    Raises:
        ConfigurationError: `profile.malformed`.
    """
    hints = types_of(type(row))
    for field in fields(row):
        value = getattr(row, field.name)
        if not is_of(value, hints[field.name]):
            found = f"a {type(value).__name__}" + (" of other things" if isinstance(value, tuple) else "")
            raise ConfigurationError(
                "profile.malformed", f"{type(row).__name__}.{field.name} is {found}, not {field.type}"
            )


def is_of(value: object, hint: Any) -> bool:
    """Whether a value is of a type of `types_of`."""
    kind, parts = get_origin(hint), get_args(hint)
    if kind is UnionType:
        return any(is_of(value, part) for part in parts)
    if kind is not tuple:
        return isinstance(value, hint)
    if not isinstance(value, tuple):
        return False
    if parts[-1] is ...:
        parts = parts[:1] * len(value)
    return len(value) == len(parts) and all(map(is_of, value, parts))
