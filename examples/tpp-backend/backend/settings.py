"""Settings from the environment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Settings:
    """What differs between a test and production. Certificates and keys are read by `Identity.from_environment`.

    Attributes:
        public_url: the address of this backend, as browsers and the service see it, for example `https://pay.example`.
        bank_url: the bank's PSD2 interface.
        database_url: an SQLAlchemy address.
        archive: folder of the evidence.
        service_key: file of the public key that verifies callbacks.
    """

    public_url: str
    bank_url: str
    database_url: str = field(repr=False)
    archive: str
    service_key: str

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Settings:
        """Read `PUBLIC_URL`, `BANK_URL` and the others; a missing one is a KeyError with its name."""
        return cls(
            public_url=environment["PUBLIC_URL"],
            bank_url=environment["BANK_URL"],
            database_url=environment["DATABASE_URL"],
            archive=environment["ARCHIVE"],
            service_key=environment["SERVICE_KEY"],
        )
