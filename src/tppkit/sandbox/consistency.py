"""Check that the bank's ledger, its payments and its evidence agree: `GET /ledger/check`."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sqlalchemy import Connection

from tppkit.evidence import EvidenceRecord, read_lines
from tppkit.sandbox.bank import ledger
from tppkit.sandbox.cell import Cell, Services
from tppkit.sandbox.control import Control

_WAIT_S = 10.0


class Consistency:
    """Compares the ledger with the orders of the interfaces, and the objects that accepted seals created with the evidence.

    Args:
        services: the services of the bank.
        cells: the cells of the interfaces.
        archive: folder of the evidence.

    Attributes:
        control: `GET /ledger/check`.
    """

    def __init__(self, services: Services, cells: Sequence[Cell], archive: Path) -> None:
        self._services = services
        self._cells = cells
        self._archive = archive
        self.control = (Control("GET", "/ledger/check", self._check),)

    async def differences(self) -> list[str]:
        """Run all due events, archive all evidence, and return the differences.

        Raises:
            TransportError: `database.unavailable`.
            TppkitError: the archive cannot be read.
        """
        services = self._services
        await services.events.catch_up()
        before = await services.database.read(self._subjects)
        try:
            async with asyncio.timeout(_WAIT_S):
                await services.evidence.flush()
        except TimeoutError:
            return ["evidence still waits to be archived"]
        records = await asyncio.to_thread(_archived, self._archive)
        differences, after = await services.database.read(lambda db: (self._table_differences(db), self._subjects(db)))
        kept = {subject for subject, _ in records}
        differences += [f"a seal was accepted for {subject} without a record" for subject in sorted(before - kept)]
        differences += [f"a record names {subject}, which does not exist" for subject in sorted(kept - after)]
        twice = {subject for (subject, _), times in records.items() if times > 1}
        return differences + [f"the seal for {subject} is recorded more than once" for subject in sorted(twice)]

    async def _check(self, parameters: Mapping[str, str], body: Any) -> Any:
        differences = await self.differences()
        return {"ok": not differences, "differences": differences}

    def _table_differences(self, db: Connection) -> list[str]:
        return ledger.check(db) + [text for cell in self._cells for text in cell.check(db)]

    def _subjects(self, db: Connection) -> set[str]:
        return {subject for cell in self._cells for subject in cell.subjects(db)}


def _archived(archive: Path) -> Counter[tuple[str, str]]:
    """Count the records of each accepted seal, by its subject and the signed request."""
    records = (EvidenceRecord.from_line(line) for _, line in read_lines(archive))
    accepted = (record for record in records if record.error_code is None)
    return Counter((str(record.payment_ref), record.signing_input_sha256) for record in accepted)
