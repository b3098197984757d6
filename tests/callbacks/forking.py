"""A process opens an SQLite store, forks, and ends; its child goes on.

Argument: the file. Prints what another program finds in it after each of the child's callbacks. Whoever waits for the end of the
output waits for the child.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from inboxes import AT, login, receiver

from tppkit.callbacks import Inbox
from tppkit.callbacks.stores.sqlite import SqliteStore

# What any other program does, such as a backup or a glance by `sqlite3 FILE`: the last one to close a file takes its log away.
LOOK = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1])
print([row[0] for row in connection.execute("SELECT request_id FROM tppkit_inbox_callbacks ORDER BY request_id")])
connection.close()
"""


def look(path: Path) -> str:
    """The requestids in the file, as another process sees them."""
    command = [sys.executable, "-c", LOOK, str(path)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout.strip()


def main() -> None:
    path = Path(sys.argv[1])
    inbox = Inbox(receiver(), SqliteStore(path))
    inbox.accept(login("parent"), at=AT)
    read, write = os.pipe()
    if os.fork():
        os._exit(0)
    os.close(write)
    os.read(read, 1)  # the end of the pipe: the parent is gone
    for request_id in ("r1", "r2"):
        inbox.accept(login(request_id), at=AT)
        print(look(path), flush=True)


if __name__ == "__main__":
    main()
