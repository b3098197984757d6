"""Evidence: what this provider sent, and the callbacks that it received.

The web processes add records to the outbox. One process moves them to the archive: python -m backend.evidence
"""

from __future__ import annotations

import logging
import os
import signal
import threading
from uuid import uuid4

from sqlalchemy import Connection, Engine, MetaData
from sqlalchemy.exc import SQLAlchemyError

from backend.database import make_engine
from backend.settings import Settings
from tppkit.callbacks import CallbackReceiver, VerifiedCallback
from tppkit.errors import ArchiveError
from tppkit.evidence import EvidenceArchive, make_sent_record
from tppkit.evidence.callbacks import make_callback_record
from tppkit.evidence.outbox import Outbox
from tppkit.seals import SentRequest


class Evidence:
    """Adds records to the outbox, which `main` empties."""

    def __init__(self, archive: str, metadata: MetaData, *, engine: Engine, receiver: CallbackReceiver) -> None:
        self._outbox, self._engine, self._receiver = Outbox(archive, metadata), engine, receiver

    def sent(self, request: SentRequest) -> None:
        """Keep a sealed request before it is sent; if this raises, it is not sent."""
        with self._engine.begin() as db:
            self._outbox.add(db, make_sent_record(request))

    def received(self, callback: VerifiedCallback, connection: Connection) -> None:
        """Keep a callback in the transaction of its effect."""
        self._outbox.add(connection, make_callback_record(callback, receiver=self._receiver))


def main() -> None:
    """Move committed records to the archive until the process is ended, and once more then."""
    settings = Settings.from_environment(os.environ)
    engine, stopped = make_engine(settings.database_url), threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopped.set())
    with EvidenceArchive(settings.archive, stream_id=uuid4().hex) as archive:
        outbox, is_last, pause_s = Outbox(archive, MetaData()), False, 0.5
        while not is_last:
            is_last = stopped.wait(pause_s)
            try:
                outbox.drain(engine)
                pause_s = 0.5
            except (ArchiveError, SQLAlchemyError):  # for example before the tables are made
                logging.exception("evidence waits in the outbox")
                pause_s = 5


if __name__ == "__main__":
    main()
