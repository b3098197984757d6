"""What a test expects to be refused."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tppkit.errors import TppkitError


@contextmanager
def refused(
    kind: type[TppkitError] | tuple[type[TppkitError], ...], code: str, *, match: str | None = None
) -> Iterator[None]:
    with pytest.raises(kind, match=match) as caught:
        yield
    assert caught.value.code == code
