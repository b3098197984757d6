"""The signers of the list of lists: certificates that the Commission published in the Official Journal.

Each digest here was found in two independent sources. Compare them with the Journal before you rely on them: all other trust
depends on them. An argument, or files in the folder of the lists, replace them.

A retired set is trusted only for lists that it signed before, and for questions about that time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class SigningPeriod:
    """The period in which a certificate may sign the list of lists, in addition to its validity.

    Attributes:
        since: when it was published as a signer, aware UTC: an earlier pivot does not retire it. None if any pivot does.
        until: when it was retired, aware UTC; None if it was not.
    """

    since: datetime | None = None
    until: datetime | None = None


Signers = Mapping[str, SigningPeriod]


# The latest first. `since` of the present set is the day by which it was in use.
_SETS: tuple[tuple[SigningPeriod, tuple[str, ...]], ...] = (
    # Official Journal C/2026/1944, https://eur-lex.europa.eu/eli/C/2026/1944/oj
    # As the DSS demonstrations' key store of 15 April 2026, and pyHanko 0.38 (one of the six), have them.
    (
        SigningPeriod(since=datetime(2026, 4, 15, tzinfo=UTC)),
        (
            "236103f03a8031ae8f47f9059bf8de38564cdbfebedde4a597d50f8980aa653b",
            "b63d416744e7098bf9ec2caa596a93bc2468e37f8284ba65ecc061711bcbaa18",
            "c0641c4f7d56c431b1c924742db7fce9c1eef7d7fd212113a2768486b3abcdc5",
            "d2064fdd70f6982dcc516b86d9d5c56aea939417c624b2e478c0b29de54f8474",
            "df7e29360c34b2b8d6d5f40325c1d4d12c9922cecd33b7407674a74b2b3ca1e5",
            "e0a620fbb6747362bb933ac44169d676a553444716cf5f31605f12a22b8396b1",
        ),
    ),
    # https://ec.europa.eu/tools/lotl/eu-lotl-pivot-300.xml
    # Announced after C 276 by pivot lists; the certificate that signed the lists of 2021 to 2023. It is listed by the list of
    # lists number 332 itself and by GNUnet's tests; its validity ended on 21 January 2024.
    (
        SigningPeriod(until=datetime(2024, 1, 21, 8, 58, tzinfo=UTC)),
        ("f7e8e4e554fb7c7a8f6f360e0ca2f59d466c8f9539a25963f5ed37e905f0c797",),
    ),
    # Official Journal C 276, 16.8.2019, p. 1, https://eur-lex.europa.eu/legal-content/EN/TXT/?uri=uriserv:OJ.C_.2019.276.01.0001.01.ENG
    # As the DSS demonstrations' key store of that time and iText 9 have them. Of these, the list of lists number 332, issued
    # then, names one only, which is in the present set too: the others were retired by then.
    (
        SigningPeriod(until=datetime(2023, 9, 27, 9, 0, 29, tzinfo=UTC)),
        (
            "435504bfd802edf4db08cbd7c7729a0d45b227797b727e4e6ea1d31684166342",
            "5400ab712c41aaf0c40b505e264d5494d8af4180f8f62955d16223b3290f97c3",
            "59a1bf290b818b177ad61ac4b3e6dcddd46da6d5be9579f8564adea6f2cf073e",
            "8e508f03b132500c3403db66e9dd39cd78f4657c840958a77d34e7bd621468e7",
            "9c1a3b646eaf132398ef319e41c8e7ed725b64d5772580ae125d59c0f6845630",
            "c1a37db48cd5e0479b97f4de32e3a7470c52aafb94c1656ef56f97503992c8a7",
            "ccd879b36bb553685becbd12901c7f41f7bd3e07f898fcbbe1eec456b03d7589",
            "d2064fdd70f6982dcc516b86d9d5c56aea939417c624b2e478c0b29de54f8474",
        ),
    ),
)  # fmt: skip

# A certificate of two sets has the period of the later one.
LOTL_SIGNERS: Signers = MappingProxyType({digest: period for period, digests in reversed(_SETS) for digest in digests})
