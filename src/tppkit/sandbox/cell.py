"""What an interface adds to the sandbox."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, MetaData
from starlette.routing import Route

from tppkit.sandbox.control import Control
from tppkit.sandbox.host import Host, Services


@dataclass(frozen=True, slots=True)
class Cell:
    """An interface's part of the sandbox. The functions are called once, when the services exist.

    Attributes:
        tables: its tables.
        latest_time: reads the latest virtual time at which something happened.
        host: makes the host.
        pages: makes the pages for browsers.
        control: makes the routes of the control host.
    """

    tables: MetaData
    latest_time: Callable[[Connection], datetime]
    host: Callable[[Services], Host]
    pages: Callable[[Services], Sequence[Route]] = lambda services: ()
    control: Callable[[Services], Sequence[Control]] = lambda services: ()
