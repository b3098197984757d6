"""Check that the bank's ledger, its payments and its evidence agree: `GET /ledger/check`."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sqlalchemy import Connection

from tppkit.evidence import EvidenceRecord
from tppkit.evidence.archive import read_lines
from tppkit.sandbox.bank import ledger
from tppkit.sandbox.cell import Cell, Services
from tppkit.sandbox.control import Control

_WAIT_S = 10.0


def ledger_control(services: Services, cells: Sequence[Cell], archive: Path) -> Control:
    """`GET /ledger/check`: whether ledger, orders and evidence agree; `archive` is the folder of the evidence."""

    async def check(parameters: Mapping[str, str], body: Any) -> Any:
        differences = await _differences(services, cells, archive)
        return {"ok": not differences, "differences": differences}

    return Control("GET", "/ledger/check", check)


async def _differences(services: Services, cells: Sequence[Cell], archive: Path) -> list[str]:
    """Run all due events, archive all evidence, and compare."""

    def subjects(db: Connection) -> set[str]:
        return {subject for cell in cells for subject in cell.subjects(db)}

    def look(db: Connection) -> tuple[list[str], set[str]]:
        return ledger.check(db) + [text for cell in cells for text in cell.check(db)], subjects(db)

    await services.events.catch_up()
    before = await services.database.read(subjects)
    try:
        async with asyncio.timeout(_WAIT_S):
            await services.evidence.flush()
    except TimeoutError:
        return ["evidence still waits to be archived"]
    records = await asyncio.to_thread(_archived, archive)
    differences, after = await services.database.read(look)
    kept = {subject for subject, _ in records}
    differences += [f"a seal was accepted for {subject} without a record" for subject in sorted(before - kept)]
    differences += [f"a record names {subject}, which does not exist" for subject in sorted(kept - after)]
    twice = {subject for (subject, _), times in records.items() if times > 1}
    return differences + [f"the seal for {subject} is recorded more than once" for subject in sorted(twice)]


def _archived(archive: Path) -> Counter[tuple[str, str]]:
    """Count the records of each accepted seal, by its subject and the signed request."""
    records = (EvidenceRecord.from_line(line) for _, line in read_lines(archive))
    accepted = (record for record in records if record.error_code is None)
    return Counter((str(record.payment_ref or record.consent_ref), record.signing_input_sha256) for record in accepted)
