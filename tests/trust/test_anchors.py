"""The authorities that are trusted, from certificates, files and folders."""

from __future__ import annotations

import base64
import os
import re
import subprocess
import sys
from dataclasses import replace

import pytest

from tppkit.errors import ConfigurationError, Severity
from tppkit.testpki import certificate_pem, key_pem, write_pki
from tppkit.testpki.certificate import Draft
from tppkit.trust import Anchors, PathVerifier, load_anchors, make_anchors


def refusal(load, *args) -> ConfigurationError:
    with pytest.raises(ConfigurationError) as refused:
        load(*args)
    return refused.value


def test_self_signed_authorities_are_roots_and_others_intermediates(pki):
    anchors = make_anchors(pki.authorities)
    assert anchors.roots == (pki.root.certificate,)
    assert anchors.intermediates == (pki.qwac_ca.certificate, pki.qseal_ca.certificate)


def test_authorities_that_the_caller_trusts_are_roots_self_signed_or_not(pki):
    anchors = make_anchors(pki.authorities, all_trusted=True)
    assert (anchors.roots, anchors.intermediates) == (pki.authorities, ())


def test_without_a_self_signed_authority_no_certificate_becomes_a_root_by_accident(pki):
    assert refusal(make_anchors, [pki.qwac_ca.certificate, pki.qseal_ca.certificate]).code == "trust.no-root"


def test_a_file_of_issuing_authorities_is_what_its_caller_says_it_is(pki, tmp_path):
    issuing = (pki.qwac_ca.certificate, pki.qseal_ca.certificate)
    (tmp_path / "issuing.pem").write_bytes(b"".join(map(certificate_pem, issuing)))
    assert load_anchors(tmp_path / "issuing.pem").roots == issuing


def test_a_folder_of_intermediates_is_not_trust_material(pki, tmp_path):
    (tmp_path / "issuing.pem").write_bytes(certificate_pem(pki.qwac_ca.certificate))
    assert refusal(load_anchors, tmp_path).code == "trust.no-root"


def test_a_verifier_needs_an_anchor():
    assert refusal(PathVerifier, Anchors(())).code == "trust.no-anchors"


def test_an_authority_of_the_same_name_signed_with_another_key_is_not_a_root(certify):
    # A rollover certificate: the old key certifies the new one under the same name.
    old = certify("Root")
    rollover = certify("Root", old)
    assert rollover.certificate.subject == rollover.certificate.issuer
    anchors = make_anchors([rollover.certificate, old.certificate])
    assert (anchors.roots, anchors.intermediates) == ((old.certificate,), (rollover.certificate,))


def test_an_authority_that_appears_twice_is_not_its_own_intermediate(pki):
    assert make_anchors([pki.root.certificate, pki.root.certificate]).intermediates == ()


def test_certificates_that_are_not_authorities_are_skipped(pki):
    anchors = make_anchors(issued.certificate for issued in pki.issued)
    assert (*anchors.roots, *anchors.intermediates) == pki.authorities


def test_without_any_authority_nothing_is_trusted(pki, tmp_path):
    for certificates in ([], [pki.qwac.certificate]):
        assert refusal(make_anchors, certificates).code == "trust.no-anchors"
    assert refusal(load_anchors, tmp_path).code == "trust.no-anchors"
    (tmp_path / "qwac.pem").write_bytes(certificate_pem(pki.qwac.certificate))
    assert refusal(load_anchors, tmp_path).code == "trust.no-anchors"


def test_a_bundle_is_read(pki, tmp_path):
    bundle = key_pem(pki.root.key) + b"".join(map(certificate_pem, (pki.qwac.certificate, *pki.authorities)))
    (tmp_path / "bundle.pem").write_bytes(bundle)
    assert load_anchors(tmp_path / "bundle.pem") == make_anchors(pki.authorities)


def test_a_file_of_any_name_and_form_is_read_when_it_is_named_itself(pki, tmp_path):
    for form in (bytes, base64.b64encode):
        (tmp_path / "root").write_bytes(form(pki.root.certificate.der))
        assert load_anchors(tmp_path / "root").roots == (pki.root.certificate,)


def test_the_folder_of_a_test_pki_is_read(pki, tmp_path):
    write_pki(pki, tmp_path / "pki")
    anchors = load_anchors(tmp_path / "pki")
    assert anchors.roots == (pki.root.certificate,)
    assert {c.sha256 for c in anchors.intermediates} == {
        pki.qwac_ca.certificate.sha256,
        pki.qseal_ca.certificate.sha256,
    }
    assert PathVerifier(anchors).verify(pki.qseal.certificate, at=pki.not_before)


@pytest.mark.parametrize("suffix", [".pem", ".crt", ".cer", ".der", ".PEM"])
def test_every_usual_suffix_is_read_in_a_folder(pki, tmp_path, suffix):
    (tmp_path / f"root{suffix}").write_bytes(pki.root.certificate.der)
    assert load_anchors(tmp_path).roots == (pki.root.certificate,)


def test_other_files_and_subfolders_are_skipped(pki, tmp_path):
    (tmp_path / "README.txt").write_bytes(b"no certificate")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "other.pem").write_bytes(certificate_pem(pki.qwac_ca.certificate))
    (tmp_path / "root.pem").write_bytes(certificate_pem(pki.root.certificate))
    anchors = load_anchors(tmp_path)
    assert (anchors.roots, anchors.intermediates) == ((pki.root.certificate,), ())


def test_a_file_that_is_absent_cannot_be_read(tmp_path):
    refused = refusal(load_anchors, tmp_path / "absent.pem")
    assert refused.code == "trust.unreadable"
    assert refused.message.count("cannot be read") == 1
    assert "absent.pem" in refused.message


@pytest.mark.parametrize(
    "content",
    [b"", b"no certificate", b"\x30\x03\x02\x01", b"-----BEGIN CERTIFICATE-----\nA\n-----END CERTIFICATE-----\n"],
)
def test_a_broken_file_of_a_folder_is_left_out_with_a_warning(pki, tmp_path, content):
    (tmp_path / "a-root.pem").write_bytes(certificate_pem(pki.root.certificate))
    (tmp_path / "broken.pem").write_bytes(content)
    anchors = load_anchors(tmp_path)
    assert anchors.roots == (pki.root.certificate,)
    (finding,) = anchors.findings
    assert (finding.code, finding.severity) == ("trust.skipped", Severity.WARNING)
    assert str(tmp_path / "broken.pem") in finding.message
    assert refusal(load_anchors, tmp_path / "broken.pem").code == "trust.unreadable"
    (tmp_path / "a-root.pem").unlink()
    assert refusal(load_anchors, tmp_path).code == "trust.unreadable"


def _not_positive(root) -> bytes:
    return replace(Draft.of(root.certificate), serial=0).sign(root.key)


UNREADABLE = {
    "no certificate": b"-----BEGIN CERTIFICATE-----\nMAMCAQE=\n-----END CERTIFICATE-----\n",
    "not base64": b"-----BEGIN CERTIFICATE-----\nA\n-----END CERTIFICATE-----\n",
    "cut": b"-----BEGIN CERTIFICATE-----\nAAAA\n",
    "another last line": b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END X509 CERTIFICATE-----\n",
    "a damaged first line": b"----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
    "trust settings": b"-----BEGIN TRUSTED CERTIFICATE-----\nMAAwAA==\n-----END TRUSTED CERTIFICATE-----\n",
}  # fmt: skip


@pytest.mark.parametrize("place", [0, 1, 2, 3])
@pytest.mark.parametrize("block", UNREADABLE.values(), ids=UNREADABLE)
def test_an_unreadable_certificate_of_a_bundle_is_left_out_with_its_place(pki, tmp_path, block, place):
    blocks = [certificate_pem(one) for one in (pki.root.certificate, pki.qwac_ca.certificate)]
    blocks.insert(1, key_pem(pki.root.key))
    blocks.insert(place, block)
    bundle = tmp_path / "bundle.pem"
    bundle.write_bytes(b"# of us\n".join([*blocks, b"\n"]))
    anchors = load_anchors(bundle)
    (finding,) = anchors.findings
    line = b"# of us\n".join([*blocks[:place], b""]).count(b"\n")
    stated = int(re.search(rf"{bundle} near line (\d+) cannot be read: ", finding.message)[1])
    assert line - 1 <= stated <= line + 1
    assert anchors.roots == (pki.root.certificate,)
    assert anchors.intermediates == (pki.qwac_ca.certificate,)


def test_authorities_whose_root_cannot_be_read_do_not_become_roots(pki, tmp_path):
    bundle = tmp_path / "bundle.pem"
    bundle.write_bytes(certificate_pem(pki.qwac_ca.certificate) + UNREADABLE["not base64"])
    refused = refusal(load_anchors, bundle)
    assert refused.code == "trust.unreadable"
    assert f"{bundle} near line " in refused.message


def test_an_anchor_may_have_a_serial_number_that_is_not_positive(pki, tmp_path):
    (tmp_path / "root.der").write_bytes(_not_positive(pki.root))
    (tmp_path / "issuing.pem").write_bytes(certificate_pem(pki.qwac_ca.certificate))
    anchors = load_anchors(tmp_path)
    assert (anchors.roots[0].serial, anchors.findings) == (0, ())
    assert PathVerifier(anchors).verify(pki.qwac.certificate, at=pki.not_before).chain[-1].serial == 0


def test_entries_of_a_folder_that_are_not_regular_files_are_skipped(pki, tmp_path):
    (tmp_path / "kept").write_bytes(certificate_pem(pki.root.certificate))
    (tmp_path / "root.pem").symlink_to("kept")
    (tmp_path / "folder.pem").mkdir()
    os.mkfifo(tmp_path / "fifo.pem")
    (tmp_path / "link.pem").symlink_to("fifo.pem")
    (tmp_path / "zeros.pem").symlink_to("/dev/zero")
    code = "import sys; from tppkit.trust import load_anchors; print(len(load_anchors(sys.argv[1]).roots))"
    # In a process of its own: one that waits for a FIFO can only be killed.
    done = subprocess.run([sys.executable, "-c", code, tmp_path], capture_output=True, timeout=20, check=True)
    assert done.stdout == b"1\n"
