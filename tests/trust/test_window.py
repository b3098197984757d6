"""Windows that news closes while they are narrowed."""

from __future__ import annotations

import threading
from datetime import UTC, datetime

from tppkit.trust.path.window import Window

AT = datetime(2026, 6, 1, tzinfo=UTC)


class _Interrupted(datetime):
    """A time during whose comparison another thread does something, if nothing holds it back."""

    other: threading.Thread

    def __lt__(self, moment: datetime) -> bool:
        self.other.start()
        self.other.join(0.2)
        return super().__lt__(moment)


def test_a_window_that_is_closed_while_it_is_narrowed_stays_closed():
    window = Window()
    until = _Interrupted(2026, 7, 1, tzinfo=UTC)
    until.other = threading.Thread(target=window.close)
    window.narrow(AT, until)
    until.other.join()
    assert not window.holds_at(AT)


def test_a_closed_window_is_not_opened_again():
    window = Window()
    window.close()
    window.narrow(AT, AT)
    assert not window.holds_at(AT)
