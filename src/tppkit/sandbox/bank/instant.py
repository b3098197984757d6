"""The countries whose banks instant payments reach."""

from __future__ import annotations

from sqlalchemy import Boolean, Column, Connection, MetaData, String, Table, bindparam, select

from tppkit.sql.statement import insert_or

TABLES = MetaData()
_REACH = Table(
    "instant_reach", TABLES,
    Column("country", String(2), primary_key=True), Column("reachable", Boolean, nullable=False),
)  # fmt: skip
_READ = select(_REACH.c.reachable).where(_REACH.c.country == bindparam("of_country"))
_SET = insert_or(
    _REACH,
    lambda into: into.values(country=bindparam("country"), reachable=bindparam("reachable")).on_conflict_do_update(
        index_elements=["country"], set_={"reachable": bindparam("reachable")}
    ),
)


def set_reachable(db: Connection, country: str, *, reachable: bool) -> None:
    """Set whether a country (two letters, as in IBANs) is reachable; the setting is stored."""
    _SET.run_one(db, {"country": country, "reachable": reachable})


def is_reachable(db: Connection, country: str) -> bool | None:
    """Return the setting of a country, None if there is none."""
    return db.execute(_READ, {"of_country": country}).scalar_one_or_none()
