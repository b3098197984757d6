"""`pki serve` as a process, with OpenSSL and curl as clients."""

from __future__ import annotations

import base64
import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest
from starlette.testclient import TestClient

from programs import needed
from tppkit._clock import utc_now
from tppkit.certificates import EidasCertificate
from tppkit.evidence import EvidenceArchive, make_record
from tppkit.sandbox.pki_services import PkiServices
from tppkit.seals import KeySigner, Message, Seal, SealPolicy, sign_request, verify_request
from tppkit.testpki import make_pki, make_provider, write_pki
from tppkit.testpki.folder import open_pki
from tppkit.testpki.keys import KeySource
from tppkit.testpki.pem import pem_block
from tppkit.testpki.requests import make_request
from tppkit.trust import PathVerifier, make_anchors

pytestmark = pytest.mark.slow

TPPKIT = str(Path(sys.executable).with_name("tppkit"))


@dataclass(frozen=True)
class Served:
    """A folder, and the addresses of the process that answers for it."""

    folder: Path
    urls: dict[str, str]

    @property
    def base(self) -> str:
        return self.urls["ocsp_url"].removesuffix("/ocsp")

    def verified(self, issuer: str) -> tuple[object, ...]:
        """Options of openssl for answers of an issuer's responder."""
        pem = self.folder / f"{issuer}.pem"
        return ("-issuer", pem, "-CAfile", self.folder / "root.pem", "-verify_other", pem)

    def ocsp(self, *labels: str, options: tuple[str, ...] = (), issuer: str = "issuing-ca-qwac") -> str:
        certificates = [word for label in labels for word in ("-cert", str(self.folder / f"{label}.pem"))]
        return openssl("ocsp", *self.verified(issuer), *options, *certificates, "-url", self.urls["ocsp_url"])

    def revoke(self, label: str, reason: str = "keyCompromise") -> None:
        subprocess.run([TPPKIT, "pki", "revoke", str(self.folder / f"{label}.pem"), "--reason", reason], check=True)


def openssl(*arguments: object, check: bool = True) -> str:
    done = subprocess.run(
        [needed("openssl"), *map(str, arguments)], capture_output=True, text=True, timeout=30, check=False
    )
    assert not check or done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    folder, ready = tmp_path / "pki", tmp_path / "ready.json"
    write_pki(make_pki(at=utc_now()), folder)
    command = [TPPKIT, "pki", "serve", str(folder), "--port", "0", "--ready-file", str(ready)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            for _ in range(3000):  # a minute
                if ready.exists() or process.poll() is not None:
                    break
                time.sleep(0.02)
            yield Served(folder, json.loads(ready.read_text()))
            process.send_signal(signal.SIGTERM)
            output = b"".join(process.communicate(timeout=20))
            assert process.returncode == 0
            assert b"Traceback" not in output
        finally:
            process.kill()


def test_openssl_gets_the_status_by_ocsp(served):
    for options in ((), ("-no_nonce",), ("-sha256",), ("-sha1", "-no_nonce")):
        output = served.ocsp("qwac", options=options)
        assert "Response verify OK" in output
        assert "qwac.pem: good" in output
        warned = output.replace("WARNING: no nonce in response", "" if "-no_nonce" in options else "WARNING")
        assert "WARNING" not in warned
    assert "qseal.pem: good" in served.ocsp("qseal", issuer="issuing-ca-qseal")
    assert "issuing-ca-qwac.pem: good" in served.ocsp("issuing-ca-qwac", issuer="root")


def test_new_certificates_and_revocations_change_the_answers(served):
    assert "qwac.pem: good" in served.ocsp("qwac")
    served.revoke("qwac")
    output = served.ocsp("qwac")
    assert "qwac.pem: revoked" in output
    assert "Reason: keyCompromise" in output
    assert "other-qwac.pem: good" in served.ocsp("other-qwac")
    open_pki(served.folder).issue("qwac", make_provider(), at=utc_now(), label="new")
    assert "new.pem: good" in served.ocsp("new")
    csr, request = served.folder.parent / "theirs.csr", make_request(make_provider(), "qwac", KeySource().make_key("a"))
    csr.write_bytes(pem_block("CERTIFICATE REQUEST", request))
    issue = [TPPKIT, "pki", "issue", "csr", str(served.folder), "--csr", str(csr), "--label", "theirs"]
    subprocess.run(issue, check=True)
    assert "theirs.pem: good" in served.ocsp("theirs")
    served.revoke("theirs")
    assert "theirs.pem: revoked" in served.ocsp("theirs")


def test_the_list_over_http_is_the_one_in_the_folder(served):
    for _ in range(2):
        got = httpx.get(f"{served.base}/issuing-ca-qwac.crl").content
        assert got == (served.folder / "issuing-ca-qwac.crl").read_bytes()
        served.revoke("qwac" if _ == 0 else "other-qwac")


def test_lists_that_end_soon_are_signed_again_when_they_are_served(tmp_path):
    folder, clock = tmp_path / "pki", [utc_now()]
    write_pki(make_pki(at=clock[0] - timedelta(days=300)), folder)
    old = {name: (folder / name).read_bytes() for name in ("root.crl", "trusted-lists/LT.xml")}
    services = PkiServices(folder, now=lambda: clock[0])
    with TestClient(services.app) as client:
        for _ in range(2):
            for name, content in old.items():
                got = client.get(f"/{Path(name).name}").content
                assert got == (folder / name).read_bytes() != content
                old[name] = got
            clock[0] += timedelta(days=340)  # while they are served


@pytest.mark.parametrize("path", ["%00%ff", "!!!!", "%%%", "AAAA"])
def test_a_get_that_is_not_a_request_is_answered_as_a_post_is(served, path):
    got = httpx.get(f"{served.urls['ocsp_url']}/{path}")
    assert (got.status_code, got.headers["content-type"]) == (200, "application/ocsp-response")
    assert got.content == httpx.post(served.urls["ocsp_url"], content=b"garbage").content


def test_curl_gets_the_status_with_get(served):
    request, answer = (served.folder.parent / name for name in ("request.der", "answer.der"))
    options = (*served.verified("issuing-ca-qwac"), "-cert", served.folder / "qwac.pem")
    openssl("ocsp", *options, "-no_nonce", "-reqout", request)
    encoded = base64.b64encode(request.read_bytes()).decode()
    for path in (quote(encoded, safe=""), encoded):
        command = ["curl", "-sSf", "-o", str(answer), "-w", "%{content_type}", f"{served.urls['ocsp_url']}/{path}"]
        assert subprocess.run(command, capture_output=True, check=True).stdout == b"application/ocsp-response"
        assert "qwac.pem: good" in openssl("ocsp", "-respin", answer, *options)


def stamped(served: Served, *options: str) -> tuple[Path, Path]:
    data, query, answer = (served.folder.parent / name for name in ("data", "query.tsq", "answer.tsr"))
    data.write_bytes(b"what is stamped")
    openssl("ts", "-query", "-data", data, *options, "-out", query)
    headers = {"Content-Type": "application/timestamp-query"}
    got = httpx.post(served.urls["tsa_url"], content=query.read_bytes(), headers=headers)
    assert got.headers["content-type"] == "application/timestamp-reply"
    answer.write_bytes(got.content)
    return query, answer


def test_openssl_verifies_time_stamps(served):
    folder = served.folder
    above = folder.parent / "above.pem"
    above.write_bytes((folder / "issuing-ca-qseal.pem").read_bytes() + (folder / "tsa.pem").read_bytes())
    for hash_name in ("-sha256", "-sha384", "-sha512"):
        for options in (("-cert",), (), ("-no_nonce",)):
            query, answer = stamped(served, hash_name, *options)
            trust = ("-CAfile", folder / "root.pem", "-untrusted", above)
            assert "Verification: OK" in openssl("ts", "-verify", "-queryfile", query, "-in", answer, *trust)
            data = folder.parent / "data"
            assert "Verification: OK" in openssl("ts", "-verify", "-data", data, "-in", answer, *trust)
            data.write_bytes(b"something else")
            assert "Verification: FAILED" in openssl("ts", "-verify", "-data", data, "-in", answer, *trust, check=False)
    _, answer = stamped(served, "-sha1")
    assert "Status: Rejected" in openssl("ts", "-reply", "-in", answer, "-text")
    answer.write_bytes(httpx.post(served.urls["tsa_url"], content=b"garbage").content)
    assert "the data submitted has the wrong format" in openssl("ts", "-reply", "-in", answer, "-text")


def test_lists_authorities_and_trusted_lists_are_there(served):
    for label in ("root", "issuing-ca-qwac", "issuing-ca-qseal"):
        got = httpx.get(f"{served.base}/{label}.der")
        pem, crl = served.folder / f"{label}.pem", served.folder.parent / "now.crl"
        assert got.headers["content-type"] == "application/pkix-cert"
        assert got.content == EidasCertificate.from_pem(pem.read_bytes()).der
        crl.write_bytes(httpx.get(f"{served.base}/{label}.crl").content)
        assert "verify OK" in openssl("crl", "-in", crl, "-noout", "-CAfile", pem)
    for name in ("eu-lotl.xml", "LT.xml"):
        got = httpx.get(f"{served.base}/{name}")
        assert got.content == (served.folder / "trusted-lists" / name).read_bytes()
    assert served.urls["lists_url"] == f"{served.base}/eu-lotl.xml"


def test_a_bad_request_is_rejected_and_the_server_continues(served):
    asked = [
        ("POST", "/ocsp", b"x" * 100_000, 413),
        ("POST", "/tsa", b"x" * 100_000, 413),
        ("GET", "/ocsp", b"", 405),
        ("GET", "/tsa", b"", 405),
        ("PUT", "/ocsp", b"", 405),
        ("GET", "/", b"", 404),
        ("GET", "/qwac.der", b"", 404),
        ("GET", "/qwac.key", b"", 404),
        ("GET", "/nobody.crl", b"", 404),
        ("GET", "/..%2fmanifest.xml", b"", 404),
        ("GET", "/lotl-signers%2fx.xml", b"", 404),
    ]
    with httpx.Client(base_url=served.base) as client:
        answered = [(m, path, client.request(m, path, content=body).status_code) for m, path, body, _ in asked]
        assert answered == [(m, path, status) for m, path, _, status in asked]
        for garbage in (b"", b"garbage", b"\x30\x80\x00\x00", b"\x30\x03\x02\x01\x01"):
            assert client.post("/ocsp", content=garbage).content == bytes.fromhex("30030a0101")  # malformedRequest
    assert "qwac.pem: good" in served.ocsp("qwac")


def test_only_the_lists_of_the_folder_itself_are_served(served, tmp_path):
    lists, secret = served.folder / "trusted-lists", tmp_path / "secret"
    secret.write_bytes(b"secret")
    (lists / "other.xml").write_bytes(b"<other/>")
    assert httpx.get(f"{served.base}/other.xml").status_code == 404
    for file, path in ((lists / "LT.xml", "LT.xml"), (served.folder / "root.crl", "root.crl")):
        file.unlink()
        assert httpx.get(f"{served.base}/{path}").status_code in (404, 503)
        file.symlink_to(secret)
        got = httpx.get(f"{served.base}/{path}")
        assert (got.status_code, b"secret" in got.content) == (503, False)


def test_a_folder_that_was_damaged_meanwhile_is_refused_until_it_is_whole(served):
    manifest = (served.folder / "manifest.json").read_bytes()
    (served.folder / "manifest.json").write_bytes(b"{")
    got = httpx.get(f"{served.base}/root.der")
    assert got.status_code == 503
    assert str(served.folder) not in got.text
    (served.folder / "manifest.json").write_bytes(manifest)
    assert httpx.get(f"{served.base}/root.der").status_code == 200


def test_openssl_verifies_with_revocation_lists(tmp_path):
    folder = tmp_path / "pki"
    write_pki(make_pki(at=utc_now()), folder)

    def verify(label: str, option: str) -> str:
        lists = [
            word for name in ("root", "issuing-ca-qwac") for word in ("-CRLfile", str(tmp_path / f"{name}.crl.pem"))
        ]
        for name in ("root", "issuing-ca-qwac"):
            openssl("crl", "-inform", "DER", "-in", folder / f"{name}.crl", "-out", tmp_path / f"{name}.crl.pem")
        return openssl(
            "verify", option, *lists, "-CAfile", folder / "root.pem", "-untrusted", folder / "issuing-ca-qwac.pem",
            folder / f"{label}.pem", check=False,
        )  # fmt: skip

    for option in ("-crl_check", "-crl_check_all"):
        assert verify("qwac", option).endswith("qwac.pem: OK\n")
    open_pki(folder).revoke(open_pki(folder).pki.qwac.certificate, at=utc_now())
    for option in ("-crl_check", "-crl_check_all"):
        assert "certificate revoked" in verify("qwac", option)
        assert verify("other-qwac", option).endswith("other-qwac.pem: OK\n")
    open_pki(folder).revoke(open_pki(folder).pki.qwac_ca.certificate, at=utc_now())
    assert verify("other-qwac", "-crl_check").endswith("other-qwac.pem: OK\n")
    assert "certificate revoked" in verify("other-qwac", "-crl_check_all")


def test_audit_seal_gets_time_stamps_and_seals_without_them(served, tmp_path):
    pki, now, folder = open_pki(served.folder).pki, utc_now(), tmp_path / "archive"
    message = Message("POST", "/psd2/v1/payments/x", (("X-Request-ID", "00000000-0000-0000-0000-000000000001"),), b"{}")
    sealed = sign_request(message, seal=Seal(pki.qseal.certificate, KeySigner(pki.qseal.key)))
    policy = SealPolicy(PathVerifier(make_anchors(pki.authorities)))
    verified = verify_request(sealed, qwac=pki.qwac.certificate, at=now, policy=policy)
    with EvidenceArchive(folder, stream_id="5a" * 16) as archive:
        archive.append(make_record(verified), *verified.chain, pki.qwac.certificate)
        archive.rotate(now=now + timedelta(days=1))
    for url, exit_code, stamped in ((f"{served.base}/none", 1, 0), (served.urls["tsa_url"], 0, 1)):
        done = subprocess.run(
            [TPPKIT, "audit", "seal", str(folder), "--tsa", url, "--json"], capture_output=True, check=False
        )
        assert (done.returncode, len(json.loads(done.stdout)["stamped"])) == (exit_code, stamped), done.stderr
        assert list((folder / "segments").glob("*.parquet"))
    verify = [TPPKIT, "audit", "verify", str(folder), "--trust", str(served.folder), "--json"]
    done = subprocess.run(verify, capture_output=True, check=False)
    (stamp,) = json.loads(done.stdout)["stamps"]
    assert (done.returncode, stamp["status"], stamp["records"]) == (0, "holds", 1), stamp
