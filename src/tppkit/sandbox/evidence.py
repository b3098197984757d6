"""The bank's evidence: every verified seal, stored in the transaction of its request, and archived after the commit."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import secrets
import shutil
from contextlib import suppress
from functools import partial
from pathlib import Path

from sqlalchemy import Column, Connection, Integer, LargeBinary, MetaData, String, Table, bindparam, insert, select

from tppkit._clock import utc_now
from tppkit._files import PRIVATE, make_folder, replace_file, write_new
from tppkit._text import printable
from tppkit.errors import ArchiveError, ConfigurationError, TransportError
from tppkit.evidence import EvidenceArchive, make_record
from tppkit.evidence.archive import read_lines
from tppkit.evidence.outbox import Outbox
from tppkit.sandbox.database import Database
from tppkit.seals import VerifiedRequest
from tppkit.sql.statement import insert_or
from tppkit.web.caller import Caller

_RETRY_S = 1.0
_BATCH = 64  # rows, whose deletion takes about a millisecond
_GATHER_S = 0.25  # wait for more records, so that they share a sync and a commit; payments wait for these
EARLIER = "earlier-archives"  # archives from before resets, by their streams
EARLIER_KEPT = 10
_STREAM_ID = "stream-id"
_OUTBOX = "evidence_outbox"
_LOGGER = logging.getLogger("tppkit.sandbox.evidence")


class Evidence:
    """Stores each sealed request once with each answer (assumption retained-repeats).

    Repetitions are only counted, so that an attacker cannot fill the archive with a captured request.

    Args:
        archive: the archive of the records.
        tables: its tables are added to these.

    Attributes:
        archive: the archive that gets the records now.

    Example:
        evidence.keep(db, caller, status=201, code=None, subject=payment_id)
    """

    def __init__(self, archive: EvidenceArchive, tables: MetaData) -> None:
        self.archive = archive
        self._outbox = Outbox(archive, tables, name=_OUTBOX)
        kept = Table(
            "kept_answers", tables, Column("key", LargeBinary, primary_key=True), Column("times", Integer, nullable=False)
        )  # fmt: skip
        self._count = insert_or(
            kept,
            lambda into: (
                into.values(key=bindparam("of_key"), times=1)
                .on_conflict_do_update(index_elements=["key"], set_={"times": kept.c.times + 1})
                .returning(kept.c.times)
            ),
        )
        bound = Table(
            "evidence_archive", tables, Column("id", Integer, primary_key=True, autoincrement=False),
            Column("stream_id", String(32), nullable=False),
        )  # fmt: skip
        self._read_archive = select(bound.c.stream_id)
        self._write_archive = insert(bound)
        self._failure: ArchiveError | None = None
        self._added = asyncio.Event()
        self._drained = asyncio.Event()
        self._flush_requested = asyncio.Event()

    def require_own(self, db: Connection) -> None:
        """Bind a new database to the archive, because two archives for one table would each get only some of its records.

        Raises:
            ConfigurationError: `database.unusable`, the database belongs to another archive.
            ArchiveError: see `begin_stream`.
        """
        bound = db.execute(self._read_archive).scalar_one_or_none()
        if bound is None:
            self.bind(db, self.archive.stream_id)
        elif bound == read_stream_id(self.archive.folder.parent):
            self.begin_stream(bound)  # a crash after the commit of a reset left this to do
        elif bound != self.archive.stream_id:
            raise ConfigurationError(
                "database.unusable", "the evidence in this database belongs to an archive in another folder"
            )

    def bind(self, db: Connection, stream_id: str) -> None:
        """Bind a new database to the archive with this stream."""
        db.execute(self._write_archive, {"id": 1, "stream_id": stream_id})

    def next_stream(self) -> str:
        """Return the id of the stream after a reset, which is in the folder before the database names it.

        It is a new one if there are records, because no record may name a payment that the bank no longer has.

        Raises:
            ConfigurationError: `file.unwritable`.
            ArchiveError: `archive.unreadable`.
        """
        if next(read_lines(self.archive.folder), None) is None:
            return self.archive.stream_id
        stream_id = secrets.token_hex(16)
        replace_file(self.archive.folder.parent / _STREAM_ID, stream_id.encode(), mode=PRIVATE)
        return stream_id

    def begin_stream(self, stream_id: str) -> None:
        """Set the archive aside as `earlier-archives/STREAM` and begin a new one; does nothing if the archive has this stream.

        The latest ten of those are kept, because tests reset a sandbox many times.

        Raises:
            ArchiveError: `archive.unusable`.
        """
        folder, ended = self.archive.folder, self.archive.stream_id
        earlier = folder.parent / EARLIER
        if stream_id == ended:
            return
        self.archive.close()
        try:
            make_folder(earlier)
            folder.rename(earlier / ended)
        except OSError as e:
            raise ArchiveError("archive.unusable", f"the archive {folder} cannot be set aside: {e.strerror}") from e
        self.archive = EvidenceArchive(folder, stream_id=stream_id)
        self._outbox = Outbox(self.archive, MetaData(), name=_OUTBOX)
        with suppress(OSError):
            for old in sorted(earlier.iterdir(), key=lambda one: one.stat().st_mtime_ns)[:-EARLIER_KEPT]:
                shutil.rmtree(old)

    def keep(
        self,
        db: Connection,
        caller: Caller,
        *,
        status: int,
        code: str | None,
        subject: str | None,
        is_consent: bool = False,
        repeated: bool | None = None,
    ) -> None:
        """Store a sealed request with its answer, in its transaction; does nothing for a request without a seal.

        Args:
            db: the transaction.
            caller: the caller with its verified seal.
            status: the status of the answer.
            code: the code of the refusal, or None.
            subject: the id of the payment or consent of the request, or None.
            is_consent: the subject is a consent.
            repeated: True for a repetition, False for the first use of an id; None: look for the same request and answer.
        """
        seal = caller.seal
        if seal is None:
            return
        if repeated is not False:
            (times,) = self._count.first(db, {"of_key": _answer_key(caller, seal, subject or code or "")})
            times += bool(repeated)  # the first time was not counted
            if times > 1:
                _LOGGER.info(
                    "evidence: request %s was answered %d times with %d", printable(seal.request_id), times, status
                )
                return
        record = make_record(
            seal, http_status=status, error_code=code, payment_ref=None if is_consent else subject,
            consent_ref=subject if is_consent else None, qwac_path=caller.qwac_path,
        )  # fmt: skip
        self._outbox.add(db, record)

    def committed(self, _: object = None) -> None:
        """Wake the drain after a commit that may have added records."""
        self._drained.clear()
        self._added.set()

    def require_working(self, caller: Caller) -> None:
        """Reject a sealed request while the archive cannot be written.

        Raises:
            ArchiveError: `archive.unusable`, with status 503.
        """
        if caller.seal is not None and self._failure is not None:
            raise self._failure

    async def drain(self, database: Database) -> None:
        """Move stored records into the archive, until cancelled; at the start also records from before a crash."""
        is_full = False
        while True:
            try:
                if not is_full:
                    with suppress(TimeoutError):
                        async with asyncio.timeout(
                            _GATHER_S
                        ):  # not wait_for: before Python 3.12 it can lose a cancellation
                            await self._flush_requested.wait()
                self._flush_requested.clear()
                self._added.clear()
                batch = await database.read(partial(self._outbox.pending, limit=_BATCH))
                is_full = len(batch) == _BATCH
                if batch:
                    await asyncio.to_thread(self._outbox.archive, batch)
                    await database.write(partial(self._outbox.remove, batch=batch))
                    await asyncio.to_thread(self._outbox.rotate, batch, limit=_BATCH, now=utc_now())
                self._failure = None
                if not is_full and not self._added.is_set():
                    self._drained.set()
                    await self._added.wait()
            except TransportError as e:  # the database fails, which each request reports
                _LOGGER.warning("evidence waits to be archived: %s", e)
                await asyncio.sleep(_RETRY_S)
            except Exception as e:  # noqa: BLE001  # requests are rejected while records cannot be archived
                _LOGGER.error("evidence cannot be archived, so sealed requests are answered 503: %s", e)
                self._failure = e if isinstance(e, ArchiveError) else ArchiveError("archive.unusable", type(e).__name__)
                await asyncio.sleep(_RETRY_S)

    async def require_archived(self, *, wait_s: float) -> None:
        """Wait until all stored records are archived.

        Raises:
            ArchiveError: `archive.unusable`, they are not after this time.
        """
        try:
            async with asyncio.timeout(wait_s):
                await self.flush()
        except TimeoutError as e:
            raise ArchiveError("archive.unusable", "the evidence cannot be archived, so nothing was reset") from e

    async def flush(self) -> None:
        """Wait until all stored records are archived."""
        self._flush_requested.set()
        await self._drained.wait()


def read_stream_id(directory: Path) -> str:
    """Return the stream id of the folder's records, also before the first record."""
    path = directory / _STREAM_ID
    with suppress(FileNotFoundError):
        return path.read_text("ascii").strip()
    directory.mkdir(parents=True, exist_ok=True)
    write_new(path, secrets.token_hex(16).encode(), mode=PRIVATE)
    return path.read_text("ascii")


def _answer_key(caller: Caller, seal: VerifiedRequest, answer: str) -> bytes:
    message = seal.unverified_message
    parts = (
        caller.id.encode(), message.method.encode(), message.target.encode("latin-1"), seal.signing_string, message.body,
        answer.encode(),
    )  # fmt: skip
    return hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts)).digest()
