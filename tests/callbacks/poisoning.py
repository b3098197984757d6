"""Receive a callback whose handler ends the process, by SIGKILL, several times in a row; then it does no more.

Arguments: store, location, prefix, way (`handle`, `work`), and how many kills in a row. Each life is a process of its own, forked
from this one. Prints as JSON how the lives ended, what effects there are, and which callbacks are told as failed.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from datetime import timedelta
from typing import Any

from inboxes import AT, open_case, outcome, receiver

from tppkit.callbacks import Inbox, InboxSettings, Retries, VerifiedCallback

DELIVERIES = [outcome(f"r{n}", record=f"t{n}") for n in range(3)]
POISON = "r1"
SETTINGS = InboxSettings(retries=Retries(attempts=3))


def live(place: tuple[str, str, str], way: str, number: int, *, deadly: bool) -> None:
    """One life: the service repeats what is not acknowledged, or a worker takes what is stored."""
    at = AT + number * timedelta(hours=1)  # the leases of an earlier life have ended
    with open_case(*place) as case:

        def handler(callback: VerifiedCallback, connection: Any) -> None:
            case.handler(callback, connection)
            if deadly and callback.request_id == POISON:
                os.kill(os.getpid(), signal.SIGKILL)

        inbox = Inbox(receiver(), case.store, settings=SETTINGS)
        for delivery in DELIVERIES:
            inbox.accept(delivery, at=at) if way == "work" else inbox.handle(delivery, handler, at=at)
        while way == "work" and inbox.work(handler, at=at):
            pass


def end_of(place: tuple[str, str, str], way: str, number: int, *, deadly: bool) -> int:
    """The wait status of a life in a process of its own."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            live(place, way, number, deadly=deadly)
            code = 0
        finally:
            sys.stderr.flush()
            os._exit(code)
    return os.waitpid(child, 0)[1]


def main() -> None:
    name, location, prefix, way, kills = sys.argv[1:]
    place = name, location, prefix
    ends = [end_of(place, way, n, deadly=True) for n in range(int(kills))]
    ends += [end_of(place, way, int(kills) + n, deadly=False) for n in range(2)]
    with open_case(*place) as case:
        failed = Inbox(receiver(), case.store).failed()
        told = [(one.entry.request_id, one.reason, one.due_at is None) for one in failed]
        print(json.dumps({"ends": ends, "effects": sorted(case.effects()), "failed": told}))


if __name__ == "__main__":
    main()
