"""The audit of segments in processes of this machine. A process that ends unexpectedly costs its segment, not the audit."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from typing import NamedTuple

from tppkit.errors import TppkitError
from tppkit.evidence.segments import Progress, Segment

Job = Callable[[Segment, Progress], str]
"""Verifies one segment and returns the key of its result. It is sent to each process once."""


class Done(NamedTuple):
    """The end of a job.

    Attributes:
        place: the number of the segment.
        key: the key of its result; None if the process ended before it had one.
        ending: how the process ended then, for example `signal 9`.
    """

    place: int
    key: str | None
    ending: str = ""


class _Worker:
    """A process and the segment that it verifies."""

    def __init__(self, job: Job) -> None:
        context = get_context("spawn")  # a fork would copy the caller's threads, and the locks that they hold
        self.pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs, job), daemon=True)
        self._process.start()
        theirs.close()  # so that the pipe ends with the process
        self.place = -1

    def stop(self) -> None:
        self._process.terminate()
        self._process.join()
        self.pipe.close()

    def ending(self) -> str:
        """Return how the process ended, after its pipe did."""
        self._process.join()
        code = self._process.exitcode or 0
        return f"signal {-code}" if code < 0 else f"exit code {code}"


def run_in_processes(
    segments: Iterable[tuple[int, Segment]], job: Job, *, workers: int, progress: Progress | None
) -> Iterator[Done]:
    """Verify numbered segments, and yield the end of each job. No process is left when the iterator ends or is closed.

    Raises:
        TppkitError: what the job raised.
    """
    waiting = iter(segments)
    busy: dict[object, _Worker] = {}

    def begin(worker: _Worker | None) -> None:
        following = next(waiting, None)
        if following is not None:
            worker = worker or _Worker(job)
            busy[worker.pipe] = worker
            worker.place, segment = following
            with suppress(OSError):  # it has died, which the next read reports
                worker.pipe.send(segment)
        elif worker is not None:
            worker.stop()

    try:
        for _ in range(workers):
            begin(None)
        while busy:
            for pipe in wait([worker.pipe for worker in busy.values()]):
                worker = busy[pipe]
                place = worker.place
                try:
                    message = worker.pipe.recv()
                except (EOFError, OSError):
                    del busy[pipe]
                    done = Done(place, None, worker.ending())
                    worker.pipe.close()
                    begin(None)
                    yield done
                    continue
                if isinstance(message, TppkitError):
                    raise message
                if isinstance(message, int):
                    if progress is not None:
                        progress(message)
                    continue
                del busy[pipe]
                begin(worker)
                yield Done(place, message)
    finally:
        for worker in busy.values():
            worker.stop()


def _serve(pipe: Connection, job: Job) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to every process; the parent ends this one
    try:
        while True:
            segment = pipe.recv()
            try:
                pipe.send(job(segment, pipe.send))
            except TppkitError as e:
                pipe.send(e)
    except (EOFError, BrokenPipeError):  # the parent has ended
        return
