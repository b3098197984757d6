"""Reading trust material and identities again while a program runs.

with Reloader(material, identity, every=60):
    serve()
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from datetime import datetime
from threading import Event, Thread
from time import monotonic
from types import TracebackType
from typing import NoReturn, Protocol, Self

from tppkit._clock import Clock, utc_now
from tppkit._handlers import call_count, require_run
from tppkit.errors import ConfigurationError, TppkitError, code_of
from tppkit.metrics import Count

_LOG = logging.getLogger("tppkit.trust")
_DAY_S = 86_400
RELOADED, UNCHANGED, REFUSED = "reloaded", "unchanged", "refused"


class Reloadable(Protocol):
    """What was read from files and can be read again: `TrustMaterial` of `load_trust`, and `client.Identity`.

    Example:
        def watch(*sources: Reloadable) -> Reloader:
            return Reloader(*sources, every=60)
    """

    @property
    def has_changed(self) -> bool:
        """Whether the files changed since they were last read successfully, by their identities, sizes and times."""

    def reload(self, *, at: datetime) -> bool:
        """Read the files again, and use what they contain; after an error, all stays as it was.

        Args:
            at: the present time, aware.

        Returns:
            Whether anything changed.

        Raises:
            TppkitError: they cannot be used.
        """


@dataclass(slots=True)
class _Watched:
    """A source, and the failure that was last logged for it."""

    source: Reloadable
    reported: tuple[str, str] | None = None


class Reloader:
    """Reads sources again when their files change, in a thread or a task.

        with Reloader(material, every=60):  # or: task = asyncio.create_task(Reloader(material, every=60).run())
            server.run()

    If a source cannot be read, it stays as it was, and is tried again at each look. The logger is `tppkit.trust`: INFO for each reload,
    ERROR for each failure, which is logged again only if its code or message changes.

    Args:
        sources: looked at in this order.
        every: seconds between two looks at the files.
        count: called after each attempt with the outcome (`reloaded`, `unchanged`: the files changed, but not what they contain;
            `refused`), the code of the failure or "", and the seconds that it took.
        now: the clock.

    Raises:
        ConfigurationError: `reload.every`, it is not above 0 and at most a day; `reload.source`, there is no source, or one cannot be read
            again; `callback.function`, `count` is a coroutine function.
    """

    def __init__(self, *sources: Reloadable, every: float, count: Count | None = None, now: Clock = utc_now) -> None:
        given: object = every  # of a caller without types
        if not isinstance(given, int | float) or not 0 < given <= _DAY_S:
            raise ConfigurationError(
                "reload.every", f"every={every!r} is not a number of seconds above 0 and up to a day"
            )
        for source in sources or (None,):
            if not callable(getattr(source, "reload", None)) or not hasattr(type(source), "has_changed"):
                reason = "no source is given" if source is None else f"{type(source).__name__} cannot be read again"
                raise ConfigurationError("reload.source", f"{reason}: pass the result of load_trust, or an Identity")
        require_run(awaited=False, count=count)
        self._watched = [_Watched(source) for source in sources]
        self._every = every
        self._count = count
        self._now = now
        self._stopping = Event()
        self._thread: Thread | None = None

    def check(self) -> None:
        """Look at the files once, and read again what changed. Call it from one thread at a time."""
        for watched in self._watched:
            self._check(watched)

    def start(self) -> None:
        """Start a thread that calls `check`, now and then every so many seconds. In a server that forks, call it in each worker.

        Raises:
            ConfigurationError: `reload.started`, it is running.
        """
        if self._thread is not None:
            raise ConfigurationError("reload.started", "this reloader is running")
        self._stopping.clear()
        self._thread = Thread(target=self._work, name="tppkit-reload", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread, after a reload that is under way."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    async def run(self) -> NoReturn:
        """Call `check` in a thread, now and then every so many seconds, until the task is cancelled."""
        while True:
            await asyncio.to_thread(self.check)
            await asyncio.sleep(self._every)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def _work(self) -> None:
        while True:
            self.check()
            if self._stopping.wait(self._every):
                return

    def _check(self, watched: _Watched) -> None:
        begin = monotonic()
        name, code = type(watched.source).__name__, ""
        try:
            if not watched.source.has_changed:
                return
            outcome = RELOADED if watched.source.reload(at=self._now()) else UNCHANGED
        except Exception as e:  # noqa: BLE001  # an error of one source must not end the others
            outcome, code = REFUSED, code_of(e)
            message = e.message if isinstance(e, TppkitError) else type(e).__name__
            if watched.reported != (code, message):
                watched.reported = code, message
                _LOG.error("%s stays as it was: %s [%s]", name, message, code)
        else:
            watched.reported = None
            _LOG.info("%s: %s", name, outcome)
        call_count(self._count, _LOG, outcome, code, monotonic() - begin)
