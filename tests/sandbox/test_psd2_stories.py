"""The acceptance stories of the PSD2 interface by number, over mutual TLS."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
from account_reader import ACCOUNTS, ALL, CONSENTS, DAILY, SAVINGS, SHOP, SMALL, Reader, request
from legacy_provider import ADDRESS, ORDER
from raw_provider import INSTANT, PAYMENT, SEPA, Connect, advance, altered, assert_refused, control
from sqlalchemy import create_engine

from tppkit._clock import utc_now
from tppkit.sandbox import SandboxServer
from tppkit.sandbox.bank.customers import find_account
from tppkit.sandbox.bank.ledger import CLEARING, Booking, Move, post
from tppkit.sandbox.bank.zone import bank_day, day_start

DAY_S = 86_400
COFFEE = {**PAYMENT, "instructedAmount": {"currency": "EUR", "amount": "4.20"}}


@pytest.fixture
def reader(fresh_bank: SandboxServer, connect: Connect) -> Reader:
    return Reader(connect(fresh_bank), fresh_bank)


def book(database: Path, iban: str, entries: Iterable[tuple[str, datetime]]) -> None:
    """Entries of one cent each, with these ids and times."""
    engine = create_engine(f"sqlite:///{database}")
    with engine.begin() as db:
        account = find_account(db, iban)
        assert account is not None
        names = "Payer", account.owner_name, None
        post(db, [Booking(id_, at, *names, (Move(CLEARING, account.id, 1),)) for id_, at in entries])
    engine.dispose()


def to_next_midnight(server: SandboxServer, *, days: int = 0) -> None:
    """Move the clock to a minute before the end of the bank's day, `days` days from today."""
    now = utc_now()
    end = day_start(bank_day(now) + timedelta(days=days + 1))
    advance(server, (end - now).total_seconds() - 60)


def test_story_1_two_consents_for_one_account_have_different_resource_ids_that_stay(reader):
    one, other = reader.approved(), reader.approved()
    first = [reader.accounts(consent) for consent in (one, other)]
    assert [account["iban"] for (account,) in first] == [DAILY, DAILY]
    assert len({account["resourceId"] for (account,) in first}) == 2
    advance(reader.server, DAY_S)
    assert [reader.accounts(consent) for consent in (one, other)] == first


@pytest.mark.parametrize(("iban", "currencies"), [(DAILY, ["EUR", "USD", "GBP"]), (SHOP, ["EUR", "USD"])])
def test_story_2_a_consent_lists_the_one_account_that_the_customer_picked(reader, iban, currencies):
    consent = reader.created()
    assert reader.decide(consent, "approve", customer="customer-1", iban=iban).status_code == 200
    (account,) = reader.accounts(consent)
    assert (account["iban"], account["currency"], "balances" in account) == (iban, "XXX", False)
    balances = reader.get(f"{ACCOUNTS}/{account['resourceId']}/balances", consent).json()
    assert balances["account"] == {"iban": iban}
    assert [each["balanceAmount"]["currency"] for each in balances["balances"]] == currencies
    assert {each["balanceType"] for each in balances["balances"]} == {"interimAvailable"}
    assert reader.accounts(consent, "?withBalance=true") == [{**account, "balances": balances["balances"]}]


def test_story_4_a_named_account_must_be_chosen_by_a_customer_who_has_it(reader):
    consent = reader.created({"accounts": [{"iban": SMALL}]})
    for choice in ({"customer": "customer-1"}, {"customer": "customer-1", "iban": DAILY}, {"iban": DAILY}):
        refused = reader.decide(consent, "approve", **choice)
        assert (refused.status_code, refused.json()["error"]["code"]) == (400, "account.unfit")
    assert reader.status(consent) == "received"
    assert reader.decide(consent, "approve", customer="customer-2").json()["status"] == "valid"
    assert [account["iban"] for account in reader.accounts(consent)] == [SMALL]


def test_story_5_a_consent_ends_with_the_180th_day_of_the_bank(reader):
    today = bank_day(utc_now())
    consent = reader.approved(validUntil=(today + timedelta(days=400)).isoformat())
    shown = reader.get(f"{CONSENTS}/{consent}").json()["validUntil"]
    assert shown == (today + timedelta(days=180)).isoformat()
    to_next_midnight(reader.server, days=180)
    assert (reader.status(consent), len(reader.accounts(consent))) == ("valid", 1)
    advance(reader.server, 61)
    assert reader.status(consent) == "expired"
    assert_refused(reader.get(ACCOUNTS, consent), 401, "CONSENT_EXPIRED")


def test_story_6_unattended_reads_are_limited_for_each_day_of_the_bank(reader):
    to_next_midnight(reader.server)
    consent = reader.approved(frequencyPerDay=2)

    def read(*headers: tuple[str, str]) -> int:
        return reader.get(ACCOUNTS, consent, headers=headers).status_code

    assert [read(), read(), read()] == [200, 200, 429]
    exceeded = reader.get(ACCOUNTS, consent, headers=())
    assert_refused(exceeded, 429, "ACCESS_EXCEEDED")
    assert 30 < int(exceeded.headers["retry-after"]) <= 61
    assert [read(("PSU-IP-Address", ip)) for ip in ("192.0.2.7", "2001:db8::7", "localhost")] == [200, 200, 400]
    page = f"{reader.place(consent)}/transactions?dateFrom=2000-01-01"
    follows = reader.get(page, consent).json()["transactions"]["_links"]["next"]["href"]
    advance(reader.server, 61)
    # A report may pass midnight. A page of an attended one continues no counted page.
    assert [reader.get(follows, consent, headers=()).status_code, read(), read()] == [200, 200, 429]
    assert [reader.get(target, consent, headers=()).status_code for target in (follows, page)] == [429, 429]


def test_story_7_a_deleted_consent_is_revoked_for_good(reader):
    consent = reader.approved()
    for _ in range(2):
        deleted = reader.get(f"{CONSENTS}/{consent}", method="DELETE")
        assert (deleted.status_code, deleted.content, "content-length" in deleted.headers) == (204, b"", False)
        assert deleted.headers["x-request-id"] == deleted.request.headers["x-request-id"]
        assert reader.status(consent) == "revoked"
        assert_refused(reader.get(ACCOUNTS, consent), 401, "CONSENT_INVALID")


def pages(reader: Reader, consent: str, target: str | None) -> Iterator[dict[str, Any]]:
    """The transactions of each page, read while the customer is absent."""
    while target is not None:
        response = reader.get(target, consent, headers=())
        assert response.status_code == 200, response.text
        page = response.json()["transactions"]
        yield page
        target = page.get("_links", {}).get("next", {}).get("href")
        assert target is None or target.startswith(ACCOUNTS)


def test_story_9_pages_list_each_entry_once_while_new_ones_arrive(reader, tmp_path):
    database = tmp_path / "sandbox" / "sandbox.sqlite"
    begin, end = datetime(2020, 1, 4, 22, tzinfo=UTC), datetime(2020, 1, 20, 22, tzinfo=UTC)  # midnights in Vilnius
    inside = [(f"in-{n:03}", begin + (end - begin) * n / 248) for n in range(248)]
    inside += [("in-a", begin), ("in-b", end - timedelta(seconds=1))]
    outside = [("out-a", begin - timedelta(seconds=1)), ("out-b", end)]
    book(database, SAVINGS, [*inside, *outside])
    consent = reader.approved(iban=SAVINGS, frequencyPerDay=1)
    window = f"{reader.place(consent)}/transactions?dateFrom=2020-01-05&dateTo=2020-01-20&bookingStatus=both"
    entries: list[dict[str, Any]] = []
    for number, page in enumerate(pages(reader, consent, window)):
        entries += page["booked"]
        assert page["pending"] == []
        book(database, SAVINGS, [(f"new-{number}", end - timedelta(microseconds=1))])
    expected = sorted(inside, key=lambda one: (one[1], one[0]), reverse=True)
    assert [entry["transactionId"] for entry in entries] == [id_ for id_, _ in expected]
    assert (entries[0]["bookingDate"], entries[-1]["bookingDate"]) == ("2020-01-20", "2020-01-05")
    assert {entry["transactionAmount"]["amount"] for entry in entries} == {"0.01"}


def test_only_pages_that_continue_a_counted_one_are_free(reader):
    to_next_midnight(reader.server)
    consent = reader.approved(frequencyPerDay=1)
    window = f"{reader.place(consent)}/transactions?dateFrom=2000-01-01"
    attended = reader.get(window, consent).json()["transactions"]
    first, *others = pages(reader, consent, window)
    following = first["_links"]["next"]["href"]

    def read(target: str) -> int:
        return reader.get(target, consent, headers=()).status_code

    position = first["booked"][-1]["transactionId"]
    assert (attended == first, position in following, len(others) > 0, read(following)) == (True, True, True, 200)
    newest = first["booked"][0]["transactionId"]
    for target in (
        following.replace(position, newest), f"{following}&bookingStatus=both", following.replace("2000-01-01", "2000-01-02")
    ):  # fmt: skip
        assert read(target) == 429
    advance(reader.server, 61)
    assert (read(following), read(following)) == (200, 429)


def amount_held(reader: Reader, consent: str) -> Decimal:
    """Its EUR."""
    balances = reader.get(f"{reader.place(consent)}/balances", consent).json()["balances"]
    (amount,) = [each["balanceAmount"]["amount"] for each in balances if each["balanceAmount"]["currency"] == "EUR"]
    return Decimal(amount)


def approve(server: SandboxServer, payment: dict[str, Any], **choice: str) -> httpx.Response:
    return control(server, f"/payments/{payment['paymentId']}/approve", choice or None)


def test_story_10_an_approved_payment_is_pending_in_every_window_and_then_booked(reader):
    consent = reader.approved()
    before, payment = amount_held(reader, consent), reader.provider.new_payment()
    assert approve(reader.server, payment, iban=DAILY).json()["transactionStatus"] == "ACSP"

    def listed(status: str, *window: str) -> list[dict[str, Any]]:
        query = "&".join((f"?bookingStatus={status}", *window))
        report = reader.get(f"{reader.place(consent)}/transactions{query}", consent).json()["transactions"]
        entries = [entry for entry in report[status] if entry["creditorName"] == PAYMENT["creditorName"]]
        assert report["booked" if status == "pending" else "pending"] == []
        return entries

    past, today = ("dateFrom=2020-01-01", "dateTo=2020-01-02"), f"dateFrom={bank_day(utc_now())}"
    amount = {"currency": "EUR", "amount": "-12.50"}
    (pending,) = listed("pending", *past)
    assert (pending["transactionAmount"], pending["remittanceInformationUnstructured"]) == (amount, "Order 4711")
    assert (listed("booked", today), amount_held(reader, consent)) == ([], before - Decimal("12.50"))
    advance(reader.server, 10)
    assert reader.provider.status(payment) == "ACSC"
    (booked,) = listed("booked", today)
    assert booked.items() > {**pending, "transactionAmount": amount}.items()
    assert (listed("pending", *past), listed("booked", *past)) == ([], [])
    assert amount_held(reader, consent) == before - Decimal("12.50")


def test_a_transfer_in_another_currency_is_listed_with_its_value_in_euro(reader, connect_legacy):
    consent, legacy = reader.approved(), connect_legacy(reader.server)

    def shown() -> tuple[Any, ...]:
        page = reader.get(f"{reader.place(consent)}/transactions?bookingStatus=both&dateFrom=2020-01-01", consent)
        found = page.json()["transactions"]
        ids = [entry["transactionId"] for entry in found["booked"]]
        assert len(ids) == len({*ids})
        lists = (
            [e["transactionAmount"] for e in found[name] if e["creditorName"] == ADDRESS["name"]]
            for name in ("booked", "pending")
        )
        balances = reader.get(f"{reader.place(consent)}/balances", consent).json()["balances"]
        return (*lists, *[Decimal(one["balanceAmount"]["amount"]) for one in balances])

    booked, pending, euro, dollars, pounds = shown()
    assert (booked, pending) == ([], [])
    payment = legacy.paid(legacy.access("pis"), {**ORDER, "amts": {"USD": 10.80}})
    value, after = [{"currency": "EUR", "amount": "-10.00"}], (euro, dollars - Decimal("10.80"), pounds)
    assert shown() == ([], value, *after), payment
    advance(reader.server, 3600)
    assert shown() == (value, [], *after)


def test_story_12_a_consent_needs_the_seal_of_the_same_provider(reader, second_provider, connect):
    message = reader.message(request(ALL))
    sealed = reader.provider.sealed(message)
    other = connect(reader.server, qseal=second_provider[1])
    for unfit, code in (
        (message, "SIGNATURE_MISSING"),
        (altered(sealed, body=message.body.replace(b"4", b"5")), "SIGNATURE_INVALID"),
        (other.sealed(message), "SIGNATURE_INVALID"),
    ):
        assert_refused(reader.provider.send(unfit), 401, code)
    assert reader.provider.send(sealed).status_code == 201  # the id was not used by what was refused


@pytest.mark.parametrize(("product", "soon", "later"), [(INSTANT, "RJCT", "RJCT"), (SEPA, "ACSP", "ACSC")])
def test_story_15_a_bank_becomes_unreachable_between_initiation_and_execution(reader, product, soon, later):
    consent = reader.approved()
    before, payment = amount_held(reader, consent), reader.provider.new_payment(product=product)
    approve(reader.server, payment, iban=DAILY)
    assert control(reader.server, "/instant", {"country": "DE", "reachable": False}).status_code == 200
    advance(reader.server, 10)
    paid = Decimal("12.50") if later == "ACSC" else 0
    assert (reader.provider.status(payment), amount_held(reader, consent)) == (soon, before - paid)
    advance(reader.server, 3590)
    assert (reader.provider.status(payment), amount_held(reader, consent)) == (later, before - paid)


def test_story_16_the_instant_cap_and_the_request_id_of_a_rejected_payment(bank, tpp):
    def instant(amount: str, request_id: str) -> httpx.Response:
        body = {**PAYMENT, "instructedAmount": {"currency": "EUR", "amount": amount}}
        return tpp.initiate(body, product=INSTANT, request_id=request_id)

    ids = str(uuid4()), str(uuid4())
    assert instant("100000.00", ids[0]).status_code == 201
    assert_refused(instant("100000.01", ids[0]), 409, "REQUEST_ID_REUSE")
    assert_refused(instant("100000.01", ids[1]), 400, "PRODUCT_INVALID")
    assert instant("100000.00", ids[1]).status_code == 201


@pytest.mark.slow
def test_story_17_a_killed_sandbox_keeps_its_clock_and_forgets_ids_after_the_hour(killed_bank):
    with killed_bank.running() as (process, tpp), tpp.http:
        message = tpp.sealed(tpp.message())
        payment = tpp.send(message).json()
        later = utc_now() + timedelta(days=10)
        killed_bank.control("/clock/advance", {"seconds": 10 * DAY_S})
        process.kill()
        process.wait(10)
    made = []
    for _ in range(2):
        with killed_bank.running() as (process, tpp), tpp.http:
            assert later <= killed_bank.now() <= later + timedelta(minutes=2)
            assert tpp.status(payment) == "RJCT"
            made.append(tpp.send(message).json()["paymentId"])
            killed_bank.stop(process)
    assert made[0] == made[1] != payment["paymentId"]
