"""What a reload changes, what it refuses, and what the reloader reports."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import threading
import weakref
from datetime import timedelta

import pytest
from asgi import sealed
from list_builder import NEXT_UPDATE, ListFacts, list_of_lists, pointer, sign, write_list
from operator_files import AT, LATER, OperatorFiles, halve

from refusals import refused
from tppkit.certificates import Use
from tppkit.errors import CertificateRejected, ConfigurationError, TppkitError, VerificationError
from tppkit.seals import KeySigner, Seal, SealPolicy, verify_request
from tppkit.testpki import certificate_pem, make_pki
from tppkit.trust import Reloader, TrustMaterial, load_trust
from tppkit.trust.material_files import MAX_ANSWERS, MaterialFiles
from tppkit.trust.trusted_list.xml_document import no_rest
from tppkit.web import QwacPolicy
from tppkit.web.caller import PeerCertificate


@pytest.fixture
def files(tmp_path, pki, operator, commission) -> OperatorFiles:
    return OperatorFiles(tmp_path, pki, operator, commission)


def verdict(material: TrustMaterial, certificate) -> str:
    try:
        material.verify_use(certificate, as_=Use.QWAC, at=LATER)
    except CertificateRejected as e:
        return e.code
    return "trusted"


def test_each_part_is_used_after_a_reload_and_not_before(files):
    material, qwac = files.load(), files.pki.qwac.certificate
    for change, expected in (
        (lambda: files.write_crls(AT + timedelta(minutes=1), qwac.serial), "revocation.revoked"),
        (lambda: files.write_crls(AT + timedelta(minutes=2)), "trusted"),
        (lambda: files.write_lists(number=8, granted=False), "trusted-list.not-granted"),
        (lambda: files.write_lists(number=9), "trusted"),
        (lambda: files.anchors.joinpath("1.pem").unlink(), "trust.no-path"),
    ):
        before = verdict(material, qwac)
        change()
        assert material.has_changed
        assert verdict(material, qwac) == before
        assert material.reload()
        assert not material.has_changed
        assert verdict(material, qwac) == expected


BROKEN = {
    "half a list": (lambda f: halve(f.lists / "PT.xml"), "trusted-list.malformed"),
    "an empty list": (lambda f: (f.lists / "PT.xml").write_bytes(b""), "trusted-list.malformed"),
    "half a list of lists": (lambda f: halve(f.lists / "lotl.xml"), "trusted-list.no-lotl"),
    "an older list": (lambda f: f.write_lists(number=6), "trusted-list.rollback"),
    "a list of another signer": (
        lambda f: (f.lists / "PT.xml").write_bytes(sign(write_list(ListFacts(sequence_number=8)), f.commission)),
        "trusted-list.signer",
    ),
    "an expired list": (
        lambda f: f.write_lists(number=8, issued=AT - timedelta(days=20), next_update=AT - timedelta(days=10)),
        "trusted-list.expired",
    ),
    "no list": (lambda f: (f.lists / "PT.xml").unlink(), "trusted-list.missing"),
    "half an authority": (lambda f: halve(f.anchors / "0.pem"), "trust.unreadable"),
    "half an issuing authority": (lambda f: halve(f.anchors / "1.pem"), "trust.unreadable"),
    "no authority": (lambda f: [one.unlink() for one in f.anchors.iterdir()], "trust.no-anchors"),
    "half a CRL": (lambda f: halve(next(f.crls.iterdir())), "revocation.unreadable"),
    "no CRL": (lambda f: [one.unlink() for one in f.crls.iterdir()], "trust.no-answers"),
    "one CRL less": (lambda f: next(f.crls.iterdir()).unlink(), "crl.missing"),
    "an older CRL": (lambda f: f.write_crls(AT - timedelta(minutes=5)), "crl.rollback"),
    "an expired CRL": (lambda f: f.write_crls(AT + timedelta(minutes=1), days=0), "revocation.stale"),
    "a future CRL": (lambda f: f.write_crls(LATER + timedelta(days=1)), "revocation.future"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_the_old_state_stays_if_new_files_cannot_be_used(files, name):
    breaking, code = BROKEN[name]
    material, qwac = files.load(), files.pki.qwac.certificate
    path = material.verify_use(qwac, as_=Use.QWAC, at=LATER)
    breaking(files)
    with refused(TppkitError, code):
        material.reload()
    assert material.verify_use(qwac, as_=Use.QWAC, at=LATER) is path
    assert material.has_changed  # so it is tried again


@pytest.mark.parametrize("named", ["not", "with another signer"])
def test_the_list_of_lists_may_take_a_list_away(files, named):
    material = files.load()
    pointers = [] if named == "not" else [pointer("PT", [files.commission.certificate])]
    (files.lists / "lotl.xml").write_bytes(sign(list_of_lists(pointers, sequence_number=400), files.commission))
    assert material.reload()
    assert verdict(material, files.pki.qwac.certificate) == "trusted-list.no-service"


def test_a_list_may_be_added(files):
    material = files.load()
    pointers = [pointer(territory, [files.operator.certificate]) for territory in ("PT", "ES")]
    added = ListFacts(territory="ES", operator="Scheme operator of ES", sequence_number=1)
    (files.lists / "lotl.xml").write_bytes(sign(list_of_lists(pointers, sequence_number=400), files.commission))
    (files.lists / "ES.xml").write_bytes(sign(write_list(added), files.operator))
    assert material.reload()
    assert {one.territory for one in material.lists.lists} == {"PT", "ES"}


def test_an_expired_list_may_replace_an_expired_one(files):
    material = load_trust(trust=files.anchors, trusted_lists=files.lists)
    files.write_lists(number=8)
    assert material.reload(at=NEXT_UPDATE + timedelta(days=1))


def test_answers_may_be_named_one_by_one_but_a_folder_holds_not_too_many(files):
    material = load_trust(trust=files.anchors, answers=files.crls.iterdir(), now=lambda: LATER)
    assert verdict(material, files.pki.qwac.certificate) == "trusted"
    for number in range(MAX_ANSWERS):
        (files.crls / f"{number}.crl").touch()
    with refused(ConfigurationError, "trust.unreadable"):
        files.load()


def test_a_remembered_verdict_keeps_no_answers_of_an_earlier_state(files):
    material = files.load()
    policy = QwacPolicy(material)
    peer = PeerCertificate((certificate_pem(files.pki.qwac.certificate).decode(),), None, "asgi-tls", ())
    policy.verify(peer, at=LATER)
    crl = weakref.ref(next(iter(material._state.parts.answers.crls)))
    files.write_crls(AT + timedelta(minutes=1))
    assert material.reload()
    gc.collect()
    assert crl() is None
    assert len(policy.verify(peer, at=LATER).answers) == 2


def test_every_remembered_verdict_ends_with_a_reload_also_without_answers(files):
    material, pki = load_trust(trust=files.anchors, trusted_lists=files.lists, now=lambda: LATER), files.pki
    qwacs, seals = QwacPolicy(material), SealPolicy(material)
    message = sealed(Seal(pki.qseal.certificate, KeySigner(pki.qseal.key)))
    peer = PeerCertificate((certificate_pem(pki.qwac.certificate).decode(),), None, "asgi-tls", ())
    qwacs.verify(peer, at=LATER)
    verify_request(message, qwac=pki.qwac.certificate, at=LATER, policy=seals)
    for removed in (pki.qwac_ca, pki.qseal_ca):
        files.write_anchors(removed.certificate)
        assert material.reload()
        with refused(TppkitError, "trust.no-path"):
            if removed is pki.qwac_ca:
                qwacs.verify(peer, at=LATER)
            else:
                verify_request(message, qwac=pki.qwac.certificate, at=LATER, policy=seals)
        files.write_anchors()


def test_a_crl_that_another_key_signed_is_refused(files):
    material = files.load()
    label = files.pki.qwac_ca.label
    forged = make_pki(at=AT, seed=99)
    file = files.crls / f"{label}.crl"
    file.write_bytes(
        next(forged.crl(one, at=AT + timedelta(minutes=1)) for one in forged.issuers if one.label == label)
    )
    with refused(VerificationError, "crl.signature"):
        material.reload()


def test_authorities_that_have_all_expired_are_refused(files):
    material = files.load()
    old = make_pki(at=AT - timedelta(days=20_000), seed=3)
    for file, authority in zip(sorted(files.anchors.iterdir()), old.authorities, strict=True):
        file.write_bytes(certificate_pem(authority))
    with refused(ConfigurationError, "trust.no-anchors"):
        material.reload()


def test_files_that_change_while_they_are_read_are_read_again_but_not_for_ever(files):
    reading, left = MaterialFiles(files.anchors, files.lists, None), [1]

    def change() -> None:
        if left:
            left.pop()
            files.write_anchors()

    _, times = reading.read(pace=change)
    assert times == reading.times()
    with refused(ConfigurationError, "trust.changing"):
        reading.read(pace=files.write_anchors)


def test_a_part_whose_files_did_not_change_is_not_read_again(files):
    material = files.load()
    lists, answers = material.lists, material.revocation
    files.write_anchors(files.pki.qseal_ca.certificate)
    assert material.reload()
    assert (material.lists, material.revocation) == (lists, answers)
    assert verdict(material, files.pki.qwac.certificate) == "trusted"


def test_a_reload_that_another_one_overtook_reads_again(files):
    material, qwac, left = files.load(), files.pki.qwac.certificate, [1]

    class Overtaken(MaterialFiles):
        def read(self, known=None, times=None, *, pace=no_rest):
            found = super().read(known, times, pace=pace)
            if left:
                left.pop()
                files.write_crls(AT + timedelta(minutes=1), qwac.serial)
                material.reload()  # as another thread does
            return found

    material._files = Overtaken(files.anchors, files.lists, (files.crls,))
    files.write_lists(number=8)
    material.reload()
    assert verdict(material, qwac) == "revocation.revoked"


def test_files_with_other_times_and_the_same_content_end_no_verdict(files):
    material, qwac = files.load(), files.pki.qwac.certificate
    path = material.verify_use(qwac, as_=Use.QWAC, at=LATER)
    os.utime(files.lists / "PT.xml", ns=(1, 1))
    assert material.has_changed
    assert not material.reload()
    assert not material.has_changed
    assert material.verify_use(qwac, as_=Use.QWAC, at=LATER) is path


def test_a_verdict_by_the_old_state_that_ends_after_the_swap_is_not_remembered(files, monkeypatch):
    material, qwac = files.load(), files.pki.qwac.certificate
    reached, swapped = threading.Event(), threading.Event()
    lists = material.lists
    find = lists.status

    def slow(*args, **options):
        reached.set()
        assert swapped.wait(30)
        return find(*args, **options)

    monkeypatch.setattr(lists, "status", slow)
    paths = []
    thread = threading.Thread(
        target=lambda: paths.append(material.verify_use(qwac, as_=Use.QWAC, at=LATER)), daemon=True
    )
    thread.start()
    assert reached.wait(30)
    files.write_crls(AT + timedelta(minutes=1), qwac.serial)
    assert material.reload()
    swapped.set()
    thread.join(30)
    assert not paths[0].holds_at(LATER)
    assert verdict(material, qwac) == "revocation.revoked"


def test_material_that_was_not_read_from_files_is_not_reloaded():
    assert not TrustMaterial().has_changed
    with refused(ConfigurationError, "trust.no-source"):
        TrustMaterial().reload()


def test_the_reloader_reports_each_attempt_and_logs_a_cause_once(files, caplog):
    counted = []
    material = files.load()
    reloader = Reloader(material, every=0.01, count=lambda *one: counted.append(one[:2]), now=lambda: LATER)
    caplog.set_level(logging.INFO, "tppkit.trust")
    reloader.check()
    assert counted == []
    halve(files.crls / f"{files.pki.qwac_ca.label}.crl")
    reloader.check()
    reloader.check()
    files.write_crls(AT + timedelta(minutes=1))
    reloader.check()
    reloader.check()
    assert counted == [("refused", "revocation.unreadable")] * 2 + [("reloaded", "")]
    assert [record.levelname for record in caplog.records] == ["ERROR", "INFO"]


def test_a_reloader_in_a_thread_follows_a_link_that_is_renamed(files, tmp_path):
    link, spare = tmp_path / "current", tmp_path / "next"
    link.symlink_to(files.crls.name)
    reloaded = threading.Event()
    material = load_trust(trust=files.anchors, answers=link, now=lambda: LATER)
    qwac = files.pki.qwac.certificate
    with Reloader(material, every=0.01, count=lambda *_: reloaded.set()):
        files.crls = tmp_path / "crls-2"
        files.crls.mkdir()
        files.write_crls(AT + timedelta(minutes=1), qwac.serial)
        spare.symlink_to("crls-2")
        spare.replace(link)
        assert reloaded.wait(30)
    assert verdict(material, qwac) == "revocation.revoked"


def test_a_reloader_in_a_task_survives_a_counter_and_a_source_that_fail(files, caplog):
    class Failing:
        def reload(self, *, at):
            raise AssertionError

        @property
        def has_changed(self):
            raise OSError("disk")

    material = files.load()
    files.write_crls(AT + timedelta(minutes=1))
    counted = []

    def count(*one):
        counted.append(one[:2])
        raise ValueError

    async def serve():
        task = asyncio.create_task(Reloader(Failing(), material, every=0.01, count=count).run())
        while len(counted) < 4:
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(serve())
    assert set(counted) == {("refused", "OSError"), ("reloaded", "")}
    assert not material.has_changed
    assert caplog.text.count("Failing stays as it was") == 1


def test_a_reloader_is_started_once(files):
    with Reloader(files.load(), every=60) as reloader, refused(ConfigurationError, "reload.started"):
        reloader.start()
    with reloader:
        pass


@pytest.mark.parametrize("every", [0, -1, float("nan"), float("inf"), "60", None])
def test_an_interval_that_is_no_time_is_refused(every):
    with refused(ConfigurationError, "reload.every"):
        Reloader(TrustMaterial(), every=every)


@pytest.mark.parametrize("sources", [(), ("/etc/anchors",), (TrustMaterial(), None)])
def test_what_cannot_be_read_again_is_refused(sources):
    with refused(ConfigurationError, "reload.source"):
        Reloader(*sources, every=60)
