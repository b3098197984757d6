"""A folder of lists: the list of the lists, who may sign it, and national lists that hold or do not."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from cryptography.hazmat.primitives.serialization import Encoding
from list_builder import AT, QWAC, START, Listed, ListFacts, State, list_of_lists, pointer, sign, verified, write_list

from refusals import refused
from tppkit.errors import ConfigurationError, FormatError, Severity, VerificationError
from tppkit.testpki import certificate_pem
from tppkit.trust import load_trusted_lists
from tppkit.trust.trusted_list.folder import following_signers, verify_list_of_lists
from tppkit.trust.trusted_list.lotl_signers import LOTL_SIGNERS, SigningPeriod
from tppkit.trust.trusted_list.reader import UnverifiedList
from tppkit.trust.trusted_list.uris import LIST_OF_LISTS

GRANTED = State("granted", datetime(2020, 1, 1, tzinfo=UTC))


@pytest.fixture(scope="module")
def next_commission(certify):
    return certify("Next Commission", ca=False)


@pytest.fixture(scope="module")
def web_ca(certify):
    return certify("Web CA", starts=GRANTED.since)


@pytest.fixture(scope="module")
def qwac(certify, web_ca):
    return certify("qwac", web_ca, **QWAC).certificate


@pytest.fixture(scope="module")
def national(operator, web_ca) -> bytes:
    return sign(write_list(ListFacts(providers={"Provider": [Listed(web_ca.certificate, [GRANTED])]})), operator)


@pytest.fixture(scope="module")
def top(commission, operator) -> bytes:
    return sign(list_of_lists([pointer("PT", [operator.certificate])]), commission)


@pytest.fixture
def folder(tmp_path, commission, national, top):
    """A folder whose list of the lists has an unremarkable name."""
    (tmp_path / "b.xml").write_bytes(top)
    (tmp_path / "a.xml").write_bytes(national)
    trust(tmp_path, commission)
    return tmp_path


def trust(folder, *signers) -> None:
    (folder / "lotl-signers").mkdir(exist_ok=True)
    for number, signer in enumerate(signers):
        (folder / "lotl-signers" / f"{number}.pem").write_bytes(signer.certificate.x509.public_bytes(Encoding.PEM))


def refusal(folder, error=VerificationError, **arguments):
    with pytest.raises(error) as refused:
        load_trusted_lists(folder, **arguments)
    return refused.value


def failures(folder) -> list[tuple[str, str | None, str]]:
    return [(f.source, f.territory, f.code) for f in load_trusted_lists(folder).failures]


def test_the_list_of_the_lists_is_known_by_its_type_and_names_the_signers_of_the_others(folder, qwac):
    lists = load_trusted_lists(folder)
    assert lists.list_of_lists.source == "b.xml"
    assert [one.source for one in lists.lists] == ["a.xml"]
    assert lists.failures == ()
    assert lists.status(qwac, at=AT).qualified_for == ("web",)


def test_signers_may_be_given(folder, commission, next_commission):
    assert load_trusted_lists(folder, signers=[commission.certificate]).lists
    assert refusal(folder, signers=[next_commission.certificate]).code == "trusted-list.signer"


def test_signers_are_a_path_bytes_or_certificates(folder, commission, tmp_path_factory):
    file = tmp_path_factory.mktemp("signers") / "signer.pem"
    certificate = commission.certificate
    file.write_bytes(certificate_pem(certificate))
    for given in (file, str(file), file.read_bytes(), certificate.der, certificate, [certificate]):
        assert load_trusted_lists(folder, signers=given).lists
    for wrong in ([file], [certificate.x509], 7):
        with refused(ConfigurationError, "certificate.argument", match="signers"):
            load_trusted_lists(folder, signers=wrong)
    with refused(FormatError, "file.unreadable", match="^signers"):
        load_trusted_lists(folder, signers="absent.pem")
    with refused(ConfigurationError, "trust.no-anchors", match="^signers"):
        load_trusted_lists(folder, signers=[])


def test_without_other_signers_those_of_the_official_journal_are_trusted(tmp_path, top):
    (tmp_path / "top.xml").write_bytes(top)
    assert refusal(tmp_path).code == "trusted-list.signer"


def test_the_pinned_signers_are_digests():
    assert len(LOTL_SIGNERS) == 14
    assert all(len(bytes.fromhex(digest)) == 32 and digest == digest.lower() for digest in LOTL_SIGNERS)


def test_a_folder_without_a_list_of_the_lists_is_refused(folder, operator, qwac):
    (folder / "b.xml").unlink()
    assert refusal(folder, ConfigurationError).code == "trusted-list.no-lotl"
    lists = load_trusted_lists(folder, signers=[operator.certificate])
    assert lists.status(qwac, at=AT).qualified_for == ("web",)


def test_a_folder_that_is_not_there_is_refused(tmp_path):
    assert refusal(tmp_path / "absent", ConfigurationError).code == "trust.unreadable"


def test_signers_that_cannot_be_read_are_refused(folder):
    (folder / "lotl-signers" / "x.pem").write_text("no certificate")
    assert refusal(folder, ConfigurationError).code == "trust.unreadable"


def test_an_empty_folder_of_signers_trusts_no_signer(tmp_path, top):
    (tmp_path / "top.xml").write_bytes(top)
    (tmp_path / "lotl-signers").mkdir()
    assert refusal(tmp_path).code == "trusted-list.signer"


def test_a_list_of_the_lists_that_does_not_hold_is_refused(folder, top, commission, operator):
    incomplete = list_of_lists([]).replace("<ListIssueDateTime>", "<ListIssueDateTime>x")
    late = list_of_lists([pointer("PT", [operator.certificate])], issued=datetime(2027, 5, 1, tzinfo=UTC))
    for data, error, code in (
        (top.replace(b"Commission TEST", b"Commission TEXT"), VerificationError, "trusted-list.signature"),
        (sign(incomplete, commission), FormatError, "trusted-list.malformed"),
        (sign(late, commission), VerificationError, "trusted-list.signer-validity"),  # its signer had ended by then
    ):
        (folder / "b.xml").write_bytes(data)
        assert refusal(folder, error).code == code


@pytest.mark.parametrize(
    ("edit", "territory", "code"),
    [
        (lambda data: data.replace(b"/granted<", b"/withdrawn<"), "PT", "trusted-list.signature"),
        (
            lambda data: data[: data.index(b"<ds:Signature")] + b"</TrustServiceStatusList>",
            "PT",
            "trusted-list.unsigned",
        ),
        (lambda data: data[:-30], None, "trusted-list.malformed"),
        (lambda data: data.replace(b"?>", b"?><!DOCTYPE a>", 1), None, "trusted-list.malformed"),
        (lambda data: data.replace(b">PT</SchemeTerritory>", b">ES</SchemeTerritory>"), "ES", "trusted-list.not-named"),
        (lambda data: b"<html/>", None, "trusted-list.malformed"),
        (lambda data: b"", None, "trusted-list.malformed"),
        (lambda data: data.replace(b"Number>7<", b"Number>-7<"), None, "trusted-list.malformed"),
    ],
)
def test_a_bad_national_list_is_reported_and_hides_nothing_else(
    folder, national, operator, commission, edit, territory, code
):
    (folder / "a.xml").write_bytes(edit(national))
    assert failures(folder) == [("a.xml", territory, code)]


def test_a_national_list_of_another_signer_is_reported(folder, web_ca, commission):
    facts = ListFacts(providers={"Provider": [Listed(web_ca.certificate, [GRANTED])]})
    (folder / "a.xml").write_bytes(sign(write_list(facts), commission))
    assert failures(folder) == [("a.xml", "PT", "trusted-list.signer")]


def test_a_list_of_another_type_than_the_one_named_is_reported(folder, operator):
    facts = ListFacts(type="http://uri.etsi.org/TrstSvc/TrustedList/TSLType/Other")
    (folder / "a.xml").write_bytes(sign(write_list(facts), operator))
    assert failures(folder) == [("a.xml", "PT", "trusted-list.not-named")]


def test_an_operator_of_another_name_is_a_notice_as_the_signer_decides(folder, operator, commission):
    data = sign(write_list(ListFacts(operator="Another operator")), operator)
    for name in ("a.xml", "copy.xml"):
        (folder / name).write_bytes(data)
    lists = load_trusted_lists(folder)
    assert lists.failures == ()
    ((notice,),) = [one.findings for one in lists.lists]
    assert (notice.code, notice.severity) == ("trusted-list.operator", Severity.NOTICE)
    assert "is of Another operator, where" in notice.message
    assert "names Scheme operator of PT" in notice.message
    (folder / "copy.xml").write_bytes(sign(write_list(ListFacts(operator="Another operator")), commission))
    assert failures(folder) == [("copy.xml", "PT", "trusted-list.signer")]


def test_a_certificate_whose_countrys_list_is_bad_gets_that_reason(folder, pki, operator, commission):
    (folder / "b.xml").write_bytes(sign(list_of_lists([pointer("LT", [operator.certificate])]), commission))
    (folder / "a.xml").write_bytes(sign(write_list(ListFacts(territory="LT")), commission))
    found = load_trusted_lists(folder).status(pki.qwac.certificate, at=AT)
    assert [f.code for f in found.findings] == ["trusted-list.signer", "trusted-list.no-service"]
    assert found.code == "trusted-list.signer"


def test_of_two_lists_of_a_territory_the_later_one_is_used(folder, operator, qwac, web_ca):
    later = ListFacts(
        sequence_number=8, providers={"Provider": [Listed(web_ca.certificate, [replace(GRANTED, status="withdrawn")])]}
    )
    (folder / "0.xml").write_bytes(sign(write_list(later), operator))
    lists = load_trusted_lists(folder)
    assert [(one.source, one.sequence_number) for one in lists.lists] == [("0.xml", 8)]
    assert [f.code for f in lists.failures] == ["trusted-list.superseded"]
    assert lists.status(qwac, at=AT).code == "trusted-list.not-granted"


def test_of_two_lists_with_one_number_the_one_issued_later_is_used(folder, operator, national):
    later = ListFacts(issued=datetime(2026, 5, 2, tzinfo=UTC))
    (folder / "0.xml").write_bytes(sign(write_list(later), operator))
    lists = load_trusted_lists(folder)
    assert ([one.source for one in lists.lists], failures(folder)) == (
        ["0.xml"], [("a.xml", "PT", "trusted-list.superseded")],
    )  # fmt: skip


def test_of_two_different_lists_with_one_number_and_time_none_is_used(folder, operator, national, qwac):
    (folder / "0.xml").write_bytes(sign(write_list(ListFacts()), operator))
    lists = load_trusted_lists(folder)
    assert (lists.lists, [f.code for f in lists.failures]) == ((), ["trusted-list.ambiguous"])


def test_a_copy_with_another_last_line_end_is_no_second_list(folder, national):
    (folder / "0.xml").write_bytes(national + b"\n")
    lists = load_trusted_lists(folder)
    assert (len(lists.lists), lists.failures) == (1, ())


def test_a_pivot_announces_the_next_signers(folder, commission, next_commission, operator):
    announcing = pointer("EU", [next_commission.certificate], type_=LIST_OF_LISTS, operator="Commission TEST")
    latest = list_of_lists([pointer("PT", [operator.certificate])], sequence_number=302)
    (folder / "b.xml").write_bytes(sign(latest, next_commission))
    assert refusal(folder).code == "trusted-list.signer"
    (folder / "pivot.xml").write_bytes(sign(list_of_lists([announcing], sequence_number=301), commission))
    lists = load_trusted_lists(folder)
    assert lists.list_of_lists.sequence_number == 302
    assert lists.failures == ()


def test_a_signer_that_a_pivot_no_longer_names_is_not_trusted(folder, commission, next_commission, operator):
    announcing = pointer("EU", [next_commission.certificate], type_=LIST_OF_LISTS)
    (folder / "pivot.xml").write_bytes(sign(list_of_lists([announcing], sequence_number=290), commission))
    assert refusal(folder).code == "trusted-list.signer"


@pytest.mark.parametrize(("published", "trusted"), [((2026, 4, 30), False), ((2026, 5, 2), True)])
def test_a_pivot_retires_no_signer_that_was_published_after_it(folder, commission, next_commission, published, trusted):
    announcing = pointer("EU", [next_commission.certificate], type_=LIST_OF_LISTS)
    pivot = verified(sign(list_of_lists([announcing]), commission), commission)
    moment = datetime(*published, tzinfo=UTC)
    following = following_signers(pivot, {commission.certificate.sha256: SigningPeriod(since=moment)})
    assert (commission.certificate.sha256 in following) is trusted
    assert following[next_commission.certificate.sha256] == SigningPeriod(until=moment if trusted else None)


def test_a_retired_signer_counts_for_the_time_before_only(folder, certify, operator, qwac):
    retired = certify("Retired Commission", ca=False, ends=datetime(2026, 5, 20, tzinfo=UTC))
    trust(folder, retired)
    (folder / "b.xml").write_bytes(sign(list_of_lists([pointer("PT", [operator.certificate])]), retired))
    lists = load_trusted_lists(folder)
    assert lists.status(qwac, at=datetime(2026, 5, 20, tzinfo=UTC)).qualified_for == ("web",)
    later = lists.status(qwac, at=AT)
    assert (later.code, later.at_issuance.qualified_for) == ("trusted-list.expired", ("web",))
    with refused(ConfigurationError, "trust.no-anchors"):
        lists.make_anchors(purpose="web", at=AT)


@pytest.mark.parametrize(("until", "code"), [((2026, 5, 1), "trusted-list.signer-validity"), ((2026, 5, 2), None)])
def test_a_pinned_signer_signs_until_its_retirement(top, commission, until, code):
    signers = {commission.certificate.sha256: SigningPeriod(until=datetime(*until, tzinfo=UTC))}
    newest = UnverifiedList(top, source="top")
    if code is None:
        verified, _ = verify_list_of_lists(newest, (), signers, [])
        assert verified.signer_until == datetime(*until, tzinfo=UTC)
        return
    with refused(VerificationError, code):
        verify_list_of_lists(newest, (), signers, [])


@pytest.mark.parametrize(("days", "code"), [(190, None), (191, "trusted-list.next-update")])
def test_no_list_is_good_for_more_than_half_a_year(folder, commission, operator, days, code):
    good = {"issued": START, "next_update": START + timedelta(days=days)}
    (folder / "a.xml").write_bytes(sign(write_list(ListFacts(**good)), operator))
    assert [c for _, _, c in failures(folder)] == ([code] if code else [])
    (folder / "b.xml").write_bytes(sign(list_of_lists([], **good), commission))
    if code is None:
        assert load_trusted_lists(folder).list_of_lists.next_update == good["next_update"]
    else:
        assert refusal(folder).code == code


LATEST = "e0a620fbb6747362bb933ac44169d676a553444716cf5f31605f12a22b8396b1"


def test_only_the_latest_pinned_signers_are_not_retired():
    present = [period.since for period in LOTL_SIGNERS.values() if period.until is None]
    assert present == [LOTL_SIGNERS[LATEST].since] * 6
    assert all(period.until < present[0] for period in LOTL_SIGNERS.values() if period.until)


def test_a_pivot_of_an_unknown_signer_announces_nothing(folder, commission, next_commission):
    announcing = pointer("EU", [next_commission.certificate], type_=LIST_OF_LISTS)
    (folder / "b.xml").write_bytes(sign(list_of_lists([], sequence_number=302), next_commission))
    (folder / "pivot.xml").write_bytes(sign(list_of_lists([announcing], sequence_number=301), next_commission))
    assert refusal(folder).code == "trusted-list.signer"


def test_a_pointer_to_a_list_for_people_names_no_signers(folder, commission, operator):
    (folder / "b.xml").write_bytes(
        sign(list_of_lists([pointer("PT", [operator.certificate], media_type="application/pdf")]), commission)
    )
    assert failures(folder) == [("a.xml", "PT", "trusted-list.not-named")]


def test_more_lists_than_there_can_be_are_refused(tmp_path):
    for number in range(201):
        (tmp_path / f"{number}.xml").touch()
    assert refusal(tmp_path, ConfigurationError).code == "trust.unreadable"
