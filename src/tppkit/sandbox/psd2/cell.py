"""The PSD2 interface as a cell of the sandbox."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from tppkit._clock import Clock
from tppkit.certificates import EidasCertificate
from tppkit.protocol.endpoint import Auth
from tppkit.protocol.psd2.endpoints import INITIATE_PAYMENT
from tppkit.sandbox.bank.ledger import next_due
from tppkit.sandbox.cell import Cell, Decision, Handler, Services
from tppkit.sandbox.conformance import Conformance
from tppkit.sandbox.host import Host
from tppkit.sandbox.psd2 import accounts, consents, payments, tables
from tppkit.sandbox.psd2.approval import order_sections
from tppkit.sandbox.psd2.conformance import Psd2Judge
from tppkit.sandbox.psd2.consent_tables import CONSENTS, consent_ids
from tppkit.sandbox.psd2.control import psd2_control
from tppkit.sandbox.psd2.pages import ApprovalPages
from tppkit.sandbox.psd2.payments import execute_payments
from tppkit.sandbox.psd2.settings import Psd2Settings
from tppkit.sandbox.queries import LatestTime
from tppkit.sandbox.second_payment import WINDOW, SecondPayments
from tppkit.sandbox.signed_answers import SignAnswer
from tppkit.seals import SealPolicy
from tppkit.web import SealGate
from tppkit.web.caller import QwacPolicy

_HANDLERS: tuple[Handler[Any, Any], ...] = (*payments.HANDLERS, *consents.HANDLERS, *accounts.HANDLERS)
_LATEST_TIME = LatestTime(tables.PAYMENTS.c.active_at, tables.PAYMENTS.c.approved_at, CONSENTS.c.active_at)

_DECISIONS = tuple(
    Decision(
        kind, ("psd2",), f"{kind}_id", "id", (f"/{kind}s/{{id}}/approve", None), (f"/{kind}s/{{id}}/decline", None), row, f"{kind}Id"
    )
    for kind, row in (("payment", "initiate_payment"), ("consent", "create_consent"))
)  # fmt: skip


def psd2_cell(
    settings: Psd2Settings, *, qwacs: QwacPolicy, seals: SealPolicy, now: Clock, report: Conformance,
    authorities: Iterable[EidasCertificate] = (), sign: SignAnswer | None = None,
) -> Cell:  # fmt: skip
    """Make the cell: the PSD2 host, the approval pages, and the control routes for payments and consents.

    Args:
        settings: the settings of this bank.
        qwacs: verifies client certificates.
        seals: verifies seals.
        now: the real time, at which both are verified.
        report: counts the rules that clients break.
        authorities: the bank's intermediate authorities.
        sign: signs each answer; None leaves them unsigned.
    """
    id_header = seals.profile.request_id or settings.interface.request_id or ""
    judge = Psd2Judge(report, settings.interface, request_id=id_header, authorities=authorities)
    payments_twice = SecondPayments(
        report,
        hosts=judge.hosts,
        row=INITIATE_PAYMENT,
        id_of=lambda exchange: (exchange.header(id_header) or "").lower(),
        window=min(WINDOW, settings.rules.inactivity),
    )
    report.add(judge, payments_twice)
    gate = SealGate(settings.interface, qwacs=qwacs, seals=seals, now=now, allow_old_date=True)

    def hosts(services: Services) -> Mapping[str, Host]:
        host = Host(
            interface=settings.interface, handlers=_HANDLERS, authenticators={Auth.QWAC: gate, Auth.SEAL: gate}, services=services,
            settings=settings, request_id=seals.profile.request_id, sign=sign,
        )  # fmt: skip
        return {"psd2": host}

    return Cell(
        settings.interface,
        tables.TABLES,
        _LATEST_TIME,
        hosts,
        pages=lambda services: ApprovalPages(services, settings, decided=judge.decided).routes,
        sections=partial(order_sections, rules=settings.rules),
        control=partial(psd2_control, settings=settings),
        next_event=partial(next_due, source=tables.SOURCE),
        run_due=partial(execute_payments, rules=settings.rules),
        check=tables.check_payments,
        subjects=lambda db: (*tables.payment_ids(db), *consent_ids(db)),
        decisions=_DECISIONS,
    )
