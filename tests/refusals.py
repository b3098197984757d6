"""What a test expects to be refused."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tppkit.errors import TppkitError


@contextmanager
def refused(
    kind: type[TppkitError] | tuple[type[TppkitError], ...], code: str, *, match: str | None = None, row: object = None
) -> Iterator[None]:
    """Expect an error; a failure shows the row of data that the test is at."""
    try:
        with pytest.raises(kind, match=match) as caught:
            yield
        assert caught.value.code == code
    except BaseException as e:
        e.add_note(f"row: {row!r}"[:500])
        raise
