"""A text that only `get_secret_value` returns."""

from __future__ import annotations

from typing import Any, NoReturn, Self

from pydantic import SecretStr


class Secret(SecretStr):
    """A text that is shown as asterisks, and is neither pickled nor among the attributes that `vars` lists.

    Example:
        key = Secret("sesame")
        key.get_secret_value()
    """

    # Without slots `vars` returns the text, and `json.dumps(..., default=vars)` writes it.
    __slots__ = ("_secret_value",)

    def __format__(self, spec: str) -> str:
        return format(str(self), spec)

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: Any) -> Self:
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError("a secret is not pickled")

    __getstate__ = __reduce__
