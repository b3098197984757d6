"""Handlers of the consent endpoints, and the customer's actions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from typing import Any

from sqlalchemy import Connection

from tppkit._encoding import shown
from tppkit.errors import LocalProtocolError
from tppkit.protocol.psd2 import (
    AuthorisationStart,
    AuthorisationStarted,
    BankRules,
    Consent,
    ConsentCreated,
    ConsentRequest,
    ConsentState,
    ConsentStatus,
)
from tppkit.protocol.psd2 import endpoints as rows
from tppkit.protocol.psd2.accounts import ConsentLinks
from tppkit.protocol.psd2.consent import CONSENT, ConsentProgress, ConsentTrigger, cap_valid_until, due_consent_trigger
from tppkit.protocol.psd2.models import Href
from tppkit.protocol.psd2.rules import parse_psu_ip_address, parse_redirect_uri
from tppkit.sandbox.bank.customers import Account, Customer, approving_accounts
from tppkit.sandbox.bank.zone import bank_day
from tppkit.sandbox.cell import Answer, Handler, HostCall
from tppkit.sandbox.psd2.consent_tables import CONSENTS, StoredConsent, lock_consent_by_link
from tppkit.sandbox.psd2.payments import approval_link, approval_links, started
from tppkit.sandbox.psd2.tables import is_id


def create_consent(call: HostCall[ConsentRequest]) -> Answer[ConsentCreated]:
    """POST /consents."""
    parse_psu_ip_address(call.message.single("psu-ip-address"))  # assumption psu-ip-address
    last_day = cap_valid_until(call.body.valid_until, bank_day(call.at), most_days=call.settings.rules.consent_days)
    progress = ConsentProgress(CONSENT.initial, call.at, last_day)
    consent = _add_consent(call, progress, parse_redirect_uri(call.message.single("tpp-redirect-uri")))
    facts = {
        "approval": approval_link(call.settings, consent.link_token),
        "status": call.target(rows.CONSENT_STATUS, consent_id=consent.consent_id),
        "self": call.target(rows.CONSENT, consent_id=consent.consent_id),
    }
    answer = ConsentCreated(
        status=consent.progress.status, consent_id=consent.consent_id, links=approval_links(facts)
    )  # fmt: skip
    return Answer(answer, subject=consent.consent_id, facts=facts)


def show_consent(call: HostCall[None]) -> Answer[Consent]:
    """GET /consents/{id}: the requested access, with the effective last day."""
    consent = _of_path(call)
    request, progress = consent.request, consent.progress
    facts = {"state": _state(progress), "last_action": bank_day(progress.active_at).isoformat()}
    return Answer(
        Consent(
            consent_id=consent.consent_id,
            status=progress.status,
            access=request.access,
            valid_until=progress.valid_until,
            frequency_per_day=call.settings.rules.granted_frequency(request.frequency_per_day),
            recurring_indicator=request.recurring_indicator,
            links=ConsentLinks(
                self_=Href(href=call.target(rows.CONSENT, consent_id=consent.consent_id)),
                status=Href(href=call.target(rows.CONSENT_STATUS, consent_id=consent.consent_id)),
            ),
        ),
        facts=facts,
    )


def consent_status(call: HostCall[None]) -> Answer[ConsentState]:
    """GET /consents/{id}/status."""
    progress = _of_path(call).progress
    return Answer(ConsentState(status=progress.status), facts={"state": _state(progress)})


def delete_consent(call: HostCall[None]) -> Answer[None]:
    """DELETE /consents/{id}; a consent that has ended stays as it is (assumption consent-revoked)."""
    revoke_consent(call.db, _of_path(call, lock=True), ConsentTrigger.TERMINATED, at=call.at)
    return Answer(None)


def start_consent_authorisation(call: HostCall[AuthorisationStart]) -> Answer[AuthorisationStarted]:
    """POST /consents/{id}/authorisations; every time the same link."""
    consent = _of_path(call)
    _require_undecided(consent)
    return Answer(started(call, consent.consent_id, consent.link_token))


HANDLERS: tuple[Handler[Any, Any], ...] = (
    Handler(rows.CREATE_CONSENT, create_consent),
    Handler(rows.CONSENT, show_consent, writes=False),
    Handler(rows.CONSENT_STATUS, consent_status, writes=False),
    Handler(rows.DELETE_CONSENT, delete_consent),
    Handler(rows.START_CONSENT_AUTHORISATION, start_consent_authorisation, writes=False),
)


def consent_of_caller(call: HostCall[Any], consent_id: str, rules: BankRules, *, lock: bool = False) -> StoredConsent:
    """Return a provider's own consent in its current state; that of another provider is unknown (assumption consent-codes).

    Raises:
        LocalProtocolError: `consent.unknown`.
    """
    find = CONSENTS.lock if lock else CONSENTS.find
    consent = find(call.db, consent_id) if is_id(consent_id) else None
    if consent is None or consent.organization != call.caller:
        raise LocalProtocolError("consent.unknown", f"there is no consent {shown(consent_id)} of this provider")
    return up_to_date(consent, call.at, rules)


def lock_linked_consent(db: Connection, link_token: str, *, at: datetime, rules: BankRules) -> StoredConsent:
    """Return the consent of an approval link in its state at a time, locked for a change.

    Raises:
        LocalProtocolError: `consent.unknown`.
    """
    consent = lock_consent_by_link(db, link_token) if is_id(link_token) else None
    if consent is None:
        raise LocalProtocolError("consent.unknown", "this approval link belongs to no consent")
    return up_to_date(consent, at, rules)


def lock_any_consent(db: Connection, consent_id: str, *, at: datetime, rules: BankRules) -> StoredConsent:
    """Return the consent of any provider in its state at a time, locked for a change.

    Raises:
        LocalProtocolError: `consent.unknown`.
    """
    consent = CONSENTS.lock(db, consent_id) if is_id(consent_id) else None
    if consent is None:
        raise LocalProtocolError("consent.unknown", f"there is no consent {shown(consent_id)}")
    return up_to_date(consent, at, rules)


def is_undecided(consent: StoredConsent) -> bool:
    """Whether the customer can decide."""
    return consent.progress.status is ConsentStatus.RECEIVED


def open_consent(db: Connection, consent: StoredConsent, *, at: datetime) -> StoredConsent:
    """Record that the customer opens or uses the approval page, which restarts the inactivity window unless it is decided."""
    if not is_undecided(consent):
        return consent
    return _store(db, consent, replace(consent.progress, active_at=at))


def consent_choices(db: Connection, consent: StoredConsent) -> tuple[tuple[Customer, Account], ...]:
    """Return each customer with each account that the customer may approve with; an IBAN in the access restricts them."""
    return tuple(_approving_accounts(db, consent, None, None))


def approve_consent(
    db: Connection, consent: StoredConsent, customer: str | None, iban: str | None, *, at: datetime
) -> StoredConsent:
    """Approve a consent as the customer, for one account.

    Args:
        db: the transaction.
        consent: the consent in its state at this time.
        customer: id of the customer who approves; None: the first who can.
        iban: IBAN of the account; None: the first possible one.
        at: the time, aware UTC.

    Raises:
        LocalProtocolError: `consent.decided`; `account.unfit`, the customer has no such account, or access names another.
    """
    _require_undecided(consent)
    chosen = next(_approving_accounts(db, consent, customer, iban), None)
    if chosen is None:
        raise LocalProtocolError("account.unfit", "no such account may be chosen for this consent")
    progress = _moved(consent.progress, ConsentTrigger.APPROVED)
    return _store(db, consent, replace(progress, active_at=at), iban=chosen[1].iban)


def decline_consent(db: Connection, consent: StoredConsent, *, at: datetime) -> StoredConsent:
    """Decline a consent as the customer.

    Raises:
        LocalProtocolError: `consent.decided`.
    """
    _require_undecided(consent)
    return _store(db, consent, replace(_moved(consent.progress, ConsentTrigger.DECLINED), active_at=at))


def revoke_consent(db: Connection, consent: StoredConsent, trigger: ConsentTrigger, *, at: datetime) -> StoredConsent:
    """Revoke a consent for the provider (TERMINATED) or the customer (REVOKED); an ended consent does not change."""
    if consent.progress.status in CONSENT.final:
        return consent
    return _store(db, consent, replace(_moved(consent.progress, trigger), active_at=at))


def _of_path(call: HostCall[Any], *, lock: bool = False) -> StoredConsent:
    return consent_of_caller(call, call.parameters["consent_id"], call.settings.rules, lock=lock)


def _approving_accounts(
    db: Connection, consent: StoredConsent, customer: str | None, iban: str | None
) -> Iterator[tuple[Customer, Account]]:
    named = consent.request.access.iban
    return (one for one in approving_accounts(db, iban or named, customer_id=customer) if named in (None, one[1].iban))


def _require_undecided(consent: StoredConsent) -> None:
    if not is_undecided(consent):
        raise LocalProtocolError(
            "consent.decided", f"the consent is {consent.progress.status}, so it can no longer be decided"
        )


def up_to_date(consent: StoredConsent, at: datetime, rules: BankRules) -> StoredConsent:
    """Return the consent in its state at a time; its expiry is computed, not stored."""
    progress = consent.progress
    trigger = due_consent_trigger(progress, now=at, today=bank_day(at), inactivity=rules.inactivity)
    return consent if trigger is None else replace(consent, progress=_moved(progress, trigger))


def _state(progress: ConsentProgress) -> str:
    """Return the status, or what has revoked the consent, for banks that tell these apart."""
    by = progress.moved_by
    return by.value if by in (ConsentTrigger.DECLINED, ConsentTrigger.TERMINATED) else progress.status.value


def _moved(progress: ConsentProgress, trigger: ConsentTrigger) -> ConsentProgress:
    return replace(progress, status=CONSENT.move(progress.status, trigger), moved_by=trigger)


def _store(
    db: Connection, consent: StoredConsent, progress: ConsentProgress, *, iban: str | None = None
) -> StoredConsent:
    changed = replace(consent, progress=progress, iban=iban or consent.iban)
    CONSENTS.set(db, changed)
    return changed


def _add_consent(call: HostCall[ConsentRequest], progress: ConsentProgress, redirect: str | None) -> StoredConsent:
    while True:  # skip the ids of an earlier run with the same seed
        consent = StoredConsent(
            consent_id=call.new_id(), organization=call.caller, body=call.message.body, link_token=call.new_id(),
            redirect_uri=redirect, progress=progress, resource_id=call.new_id(),
            provider_name=call.caller_name,
        )  # fmt: skip
        if CONSENTS.add_new(call.db, consent):
            return consent
