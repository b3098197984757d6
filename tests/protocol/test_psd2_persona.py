"""Personas: what their files mean, and every fault that they can have, with its line."""

from __future__ import annotations

import os
from contextlib import suppress
from datetime import timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tppkit.errors import ConfigurationError, FormatError
from tppkit.protocol.psd2 import (
    PERSONAS,
    PSD2,
    BankRules,
    ConsentStatus,
    PaymentStatus,
    TransactionStatus,
    check_persona,
    load_persona,
    parse_persona,
)
from tppkit.protocol.psd2 import endpoints as rows
from tppkit.protocol.psd2.accounts import ConsentState
from tppkit.protocol.psd2.persona import persona_text

HEAD = 'based_on = "document"\nname = "our-bank"\nsource = "a letter"\n'


def persona(text: str = ""):
    return parse_persona((HEAD + text).encode())


def test_the_document_is_the_interface_itself():
    document = load_persona("document")
    assert document.interface is PSD2
    assert (document.rules, document.prefix, document.profile) == (BankRules(), "/psd2/v1", "psd2-v1")


def test_rows_that_do_not_differ_stay_those_of_the_document():
    adapted = persona('[endpoints.consent]\nanswer_fields = { lastActionDate = "{last_action}" }').interface
    assert [row.name for row in adapted.endpoints if row not in PSD2.endpoints] == ["consent"]


@pytest.mark.parametrize("name", PERSONAS)
def test_the_printed_file_is_the_persona(name):
    assert parse_persona(persona_text(name).encode()) == load_persona(name)


def test_what_the_base_of_the_base_has_is_inherited():
    own = parse_persona(HEAD.replace("document", "berlin-group").encode())
    assert own.interface == load_persona("berlin-group").interface
    assert (own.name, own.prefix) == ("our-bank", "/v1")


def test_rules_replace_those_of_the_base():
    text = '[rules]\ninactivity = 60\ninstant_cap = "15000.00"\ninstant_unreachable = ["FR"]\npage_size = 5\nreads_per_day = 2'
    assert persona(text).rules == BankRules(
        inactivity=timedelta(minutes=1), instant_cap=Decimal(15000), instant_unreachable=frozenset({"FR"}), page_size=5, reads_per_day=2
    )  # fmt: skip


def test_the_first_name_of_a_state_is_written_and_all_are_read():
    interface = persona('[payment_status]\nACSP = "PDNG"\nACSC = ["ACCC", "ACSC"]').interface
    body = interface.named(rows.PAYMENT_STATUS).whole
    for status, name in (
        (TransactionStatus.ACSP, "PDNG"),
        (TransactionStatus.ACSC, "ACCC"),
        (TransactionStatus.RCVD, "RCVD"),
    ):
        wire = body.write(PaymentStatus(transaction_status=status))
        assert wire == f'{{"transactionStatus":"{name}"}}'.encode()
        assert body.read(wire, tolerant=True).transaction_status is status
    assert body.read(b'{"transactionStatus":"ACSC"}', tolerant=True).transaction_status is TransactionStatus.ACSC
    assert body.read(b'{"transactionStatus":"PATC"}', tolerant=True).transaction_status == "PATC"


def test_what_ended_a_consent_has_a_name_of_its_own():
    row = persona(
        'consent_field = "consentStatus"\n[consent_status]\ndeclined = "no"\nterminated = "gone"'
    ).interface.named(rows.CONSENT_STATUS)
    state = ConsentState(status=ConsentStatus.REVOKED)
    for reason, name in (("declined", "no"), ("terminated", "gone"), ("revoked", "revoked")):
        wire = row.write_answer(state, {"state": reason})
        assert wire == f'{{"consentStatus":"{name}"}}'.encode()
        assert row.whole.read(wire, tolerant=True) == state


@given(
    st.binary() | st.text().map(str.encode) | st.sampled_from([b'{"consentStatus":[]}', b'{"consentStatus":{}}', b"[]"])
)
def test_only_format_errors_come_of_hostile_answers(raw):
    with suppress(FormatError):
        load_persona("berlin-group").interface.named(rows.CONSENT_STATUS).whole.read(raw, tolerant=True)


FAULTS = [
    ('nme = "x"', 4, "nme is not a key"),
    ('prefix = "/v1/"', 4, "empty or a path such as /psd2/v1"),
    ('prefix = "/../v1"', 4, "prefix"),
    ('profile = "berlin-grop"', 4, "did you mean berlin-group?"),
    ('approval_link = "scaPush"', 4, "scaRedirect, scaOAuth, startAuthorisation"),
    ('answers = "rfc9412"', 4, "did you mean rfc9421?"),
    ("rules = 1", 4, "rules is not a table"),
    ("[rules]\npage_size = 0", 5, "from 1 to 1000"),
    ("[rules]\ntechnical_validation = 1", 5, "not true or false"),
    ("[rules]\ninactvity = 5", 5, "did you mean inactivity?"),
    ('[refusals]\n"role.mising" = [403, "ROLE_INVALID"]', 5, "did you mean role.missing?"),
    ('[refusals]\n"role.missing" = [200, "ROLE_INVALID"]', 5, "from 400 to 599"),
    ('[refusals]\n"role.missing" = 403', 5, "not [status, code]"),
    ('[payment_status]\nACSP = "ACSC"\nACSC = "ACSC"', 6, "also the name of ACSP"),
    ("[payment_status]\nRCVD = []", 5, "has no text"),
    ('[consent_status]\ndeclined = "valid"', 5, "also the name of valid"),
    ("[endpoints.transaction]", 4, "did you mean transactions?"),
    ("[endpoints.initiate_payment]\nsuccess = 404", 5, "not one of 200, 201, 202"),
    ("[endpoints.cancel_payment]\nsuccess = 204.0", 5, "not one of 200, 202, 204"),
    ("[endpoints.payment_status]\nrequired_fields = []", 5, "not a key"),
    ('[endpoints.all]\nrequired_headers = ["Digest"]', 5, "has digest, which client or sandbox write"),
    ('[endpoints.all]\nanswer_headers = { X-A = "a\\r\\nX-B: b" }', 5, "printable ASCII characters"),
    ('[endpoints.consent]\nanswer_fields = { a = "{self}" }', 5, "known places are last_action"),
    ("[endpoints.initiate_payment]\nanswer_fields._links = 1", 5, "_links is not a table"),
    ("[endpoints.consent]\nanswer_fields = { a = 2026-11-29 }", 5, "JSON does not have"),
    ("[endpoints.create_consent]\ndefault_fields = { a = 1e999 }", 5, "JSON does not have"),
    ("[endpoints.create_consent]\ndefault_fields = { a = 0x" + "f" * 9000 + " }", 5, "very large number"),
    ('[endpoints.cancel_payment]\nsuccess = 204\nanswer_fields = { a = "b" }', 6, "contradicts success = 204"),
    ("[endpoints.initiate_payment]\ndefault_fields = { instructedAmount = 1 }", 5, "every body has this field"),
    ('[endpoints.payment_status]\nanswer_fields.transactionStatus = "ACSC"', 5, "every body has this field"),
    ("x = \ny = 1", 4, "not TOML"),
    (
        '[endpoints.all]\ndefault_headers = { Signature = "x" }',
        5,
        "default_headers has signature, which client or sandbox",
    ),
    ("a = [\n1,\n", 5, "not TOML"),
    ("b = 1\na = " + "[" * 5000, 5, "nested too deep"),
    ("b = 1\na = " + "9" * 6000 + "\nc = 1", 5, "too many digits"),
    ("[rules]\na" + ".a" * 20_000 + " = 1", 5, "more than 64 dots"),
    ("[rules]\na = {" + "a." * 20_000 + "a = 1 }", 5, "more than 64 dots"),
    ("\na.b.c.d.e.f.g.h.i.j = 1", 5, "deeper than 8 levels"),
    ('\n"n\\u006de" = "x"', 5, "nme is not a key"),
    ("#" * 70_000, 0, "the limit is 65536"),
]


@pytest.mark.parametrize(("text", "line", "reason"), FAULTS, ids=[row[0][:40] for row in FAULTS])
def test_a_fault_has_its_line_and_a_reason(text, line, reason):
    (fault,) = check_persona((HEAD + text).encode(), dialects=("psd2-v1", "berlin-group"))
    assert (fault.line, reason in fault.text) == (line, True), fault


def test_bytes_that_are_not_utf_8_have_their_line():
    (fault,) = check_persona(HEAD.encode() + b'prefix = "\xff"')
    assert (fault.line, fault.text) == (4, 'the file is not TOML: "not UTF-8"')


def test_a_line_of_dots_may_be_a_comment():
    assert check_persona((HEAD + "# " + "." * 100).encode()) == ()


def test_all_faults_are_reported_at_once():
    text = 'based_on = "document"\nprefix = "v1"\n\n[rules]\npage_size = 0\n\n[payment_status]\nXXXX = "YYYY"\n'
    with pytest.raises(ConfigurationError) as caught:
        parse_persona(text.encode())
    assert caught.value.code == "persona.invalid"
    assert caught.value.message.startswith("the persona has 5 faults: name is missing")
    for part in ("source is missing", "line 2: prefix", "line 5: rules.page_size", "line 8: payment_status.XXXX"):
        assert part in caught.value.message


def test_many_faults_take_no_time_to_explain():
    many = "[refusals]\n" + "".join(f'"{number:05}"=1\n' for number in range(6000))
    faults = check_persona((HEAD + many).encode())
    assert (len(faults), faults[-1].text) == (101, "11900 more faults")


@given(st.text(max_size=300) | st.binary(max_size=300).map(lambda raw: raw.decode("latin-1")))
def test_only_faults_come_of_any_text(text):
    assert check_persona(text.encode("utf-8", "surrogatepass"))


@pytest.mark.parametrize("name", ["Document", "berlin_group", "", "x.tml"])
def test_an_unknown_name_is_refused(name):
    with pytest.raises(ConfigurationError, match="one of document, berlin-group") as caught:
        load_persona(name)
    assert caught.value.code == "persona.unknown"


def test_a_file_is_taken_by_its_path(tmp_path):
    path = tmp_path / "our-bank.toml"
    path.write_text(HEAD)
    assert load_persona(path) == load_persona(os.fspath(path)) == persona()
    assert load_persona(persona()) == persona()
