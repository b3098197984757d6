"""One of several receivers that get the same callbacks at the same moment: a process of its own.

Arguments: store, location, prefix, the way (`handle` or `work`), how many callbacks. Waits for a line on standard input, then prints
one outcome a line.
"""

from __future__ import annotations

import sys
from datetime import timedelta

from inboxes import AT, Case, login, open_case, receiver

from tppkit.callbacks import Inbox


def handle(inbox: Inbox, case: Case, count: int) -> None:
    deliveries = [login(f"r{n}") for n in range(count)]
    print("ready", flush=True)
    sys.stdin.readline()
    for number, delivery in enumerate(deliveries):
        print(number, inbox.handle(delivery, case.handler, at=AT).outcome.value)


def work(inbox: Inbox, case: Case) -> None:
    print("ready", flush=True)
    sys.stdin.readline()
    while worked := inbox.work(case.handler, at=AT + timedelta(seconds=1), limit=3):
        for one in worked:
            print(one.entry.request_id, one.outcome.value)


def main() -> None:
    store, location, prefix, way, count = sys.argv[1:]
    with open_case(store, location, prefix) as case:
        inbox = Inbox(receiver(), case.store)
        handle(inbox, case, int(count)) if way == "handle" else work(inbox, case)


if __name__ == "__main__":
    main()
