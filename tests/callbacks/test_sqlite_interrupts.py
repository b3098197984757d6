"""An interrupt, such as of Ctrl-C, wherever the interpreter looks for one in the store of SQLite files: nothing is lost or done twice."""

from __future__ import annotations

import inspect
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from inboxes import AT, Case, login, receiver, sqlite_case

from tppkit.callbacks import Inbox, Outcome
from tppkit.callbacks.stores.sqlite import SqliteStore
from tppkit.errors import InboxError

_FILES = ("sqlite.py", "sqlite_file.py", "sqlite_group.py", "threading.py")


@contextmanager
def interrupted(number: int) -> Iterator[list[str]]:
    """Raise KeyboardInterrupt in this thread at a place by its number; gives where it was, nothing when there were fewer.

    Signals are handled where a function of Python's begins and where one of C's has returned. Generators are left out: what a profiler
    raises where one goes on leaves it without its `finally`, which no signal does.
    """
    left, where = number, list[str]()

    def look(frame: FrameType, event: str, called: Any) -> None:
        nonlocal left
        begins = event == "call" and not frame.f_code.co_flags & inspect.CO_GENERATOR
        if (begins or event == "c_return") and frame.f_code.co_filename.endswith(_FILES):
            left -= 1
            if left == 0:
                where.append(f"{frame.f_code.co_qualname}:{frame.f_lineno}")
                raise KeyboardInterrupt

    sys.setprofile(look)
    try:
        yield where
    except KeyboardInterrupt:
        assert where
    finally:
        sys.setprofile(None)


def opened(path: Path, wait_s: float) -> tuple[Case, SqliteStore]:
    case = sqlite_case(path)
    case.store = SqliteStore(path, wait_s=wait_s)
    return case, case.store


@pytest.mark.parametrize("fails", [False, True], ids=["handler works", "handler fails"])
def test_an_interrupt_loses_and_doubles_nothing(fails: bool, tmp_path: Path) -> None:
    case, store = opened(tmp_path / "inbox.sqlite", 0.3)
    inbox = Inbox(receiver(), store)

    def half(callback: Any, connection: Any) -> None:
        case.handler(callback, connection)
        if fails:
            raise ValueError

    for number in range(1, 1000):
        request = login(f"r{number}")
        with interrupted(number) as where:
            try:
                inbox.handle(request, half, at=AT)
            except ValueError:
                assert fails
        again = inbox.handle(request, case.handler, at=AT).outcome
        assert again is Outcome.APPLIED or (not fails and again is Outcome.REPEATED), where
        assert case.effects()[number - 1 :] == [f"r{number} -"], where
        if not where:
            break
    assert 30 < number < 999
    store.close()


def test_an_interrupt_of_one_tells_nothing_false_to_those_that_share_its_commit(tmp_path: Path) -> None:
    case, store = opened(tmp_path / "inbox.sqlite", 0.2)
    inbox = Inbox(receiver(), store)

    def waits(callback: Any, connection: Any) -> None:
        case.handler(callback, connection)
        deadline = time.monotonic() + 0.1
        while not store._waiting and time.monotonic() < deadline:
            time.sleep(0.0005)

    def told(work: Callable[[], Any]) -> bool:
        """Whether it is in safe hands."""
        try:
            return bool(work().acknowledged)
        except InboxError:
            return False

    with ThreadPoolExecutor(1) as thread:
        for number in range(1, 1000):
            first, second = login(f"a{number}"), login(f"b{number}")
            other = thread.submit(told, lambda request=first: inbox.handle(request, waits, at=AT))
            while store._holder is None and not other.done():
                time.sleep(0.0002)
            with interrupted(number) as where:
                told(lambda request=second: inbox.handle(request, case.handler, at=AT))
            if other.result(20):
                assert f"a{number} -" in case.effects(), where
            for request in (first, second):
                assert inbox.handle(request, case.handler, at=AT).acknowledged, where
            assert sorted(case.effects()[2 * number - 2 :]) == [f"a{number} -", f"b{number} -"], where
            if not where:
                break
    assert 30 < number < 999
    store.close()
