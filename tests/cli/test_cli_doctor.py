"""`tppkit doctor` on files of a test PKI, real databases and archives, and banks that answer as a test says."""

from __future__ import annotations

import os
import socket
import sqlite3
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from time import monotonic, sleep
from uuid import UUID

import psycopg
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, PrivateFormat
from cryptography.x509.oid import NameOID

from servers import relay_to
from tppkit._clock import parse_time, utc_now
from tppkit.cli import doctor as command
from tppkit.cli import doctor_bank
from tppkit.cli.doctor_row import Checkup, Row, Status
from tppkit.evidence import EvidenceArchive, make_record
from tppkit.httpsig.http_date import format_http_date
from tppkit.sandbox import SandboxSettings, run_sandbox
from tppkit.seals import KeySigner, Message, Seal, SealPolicy, sign_request, verify_request
from tppkit.testpki import certificate_pem, make_pki, write_pki
from tppkit.trust import PathVerifier, make_anchors

EXITS = {"ok": 0, "warning": 1, "critical": 2, "unknown": 3}
DATABASE_PASSWORD = "p4ss-of-the-database"
Rows = dict[str, tuple[str, str, int | None]]


@pytest.fixture
def doctor(tppkit, bank_pki_folder) -> Callable[..., Rows]:
    """Run the command; gives (status, message, days left) by name, the worst row of each."""
    bank_pki_folder.joinpath("password").write_text("test\n")

    def run(*arguments: object) -> Rows:
        done = tppkit("doctor", "--json", *arguments)
        value = done.json
        assert done.exit_code == EXITS[value["status"]], done
        assert value["status"] == value["checks"][0]["status"]  # the worst first
        rows: Rows = {}
        for row in value["checks"]:
            assert set(row) == {"name", "status", "message", "days_left"}
            rows.setdefault(row["name"], (row["status"], row["message"], row["days_left"]))
        return rows

    return run


@pytest.fixture
def whole(bank_pki_folder) -> list[Path]:
    return [bank_pki_folder / name for name in ("qwac-chain.pem", "qwac.key", "qseal-chain.pem", "qseal.key")]


def test_a_sound_identity_is_ok_in_every_check(doctor, bank_pki_folder, whole):
    crls = [("--crl", bank_pki_folder / f"{name}.crl") for name in ("root", "issuing-ca-qwac", "issuing-ca-qseal")]
    lists = ("--trusted-lists", bank_pki_folder / "trusted-lists")
    rows = doctor(*whole, "--trust", bank_pki_folder, *sum(crls, ()), *lists)
    assert {name for name, (status, _, _) in rows.items() if status != "ok"} == set()
    of_both = {
        f"{kind}.{check}" for kind in ("qwac", "qseal") for check in ("validity", "algorithms", "profile", "chain")
    }
    assert rows.keys() == of_both | {
        "qwac.client-auth", "authority.validity", "authority.algorithms", "pair", "key", "anchors", "crl", "revocation", "trusted-list",
    }  # fmt: skip
    assert rows["qwac.validity"][2] in (363, 364)


def test_the_table_has_a_line_for_each_row_and_the_worst_first(tppkit, bank_pki_folder):
    done = tppkit("doctor", bank_pki_folder / "qwac.pem", bank_pki_folder / "README.md")
    summary, first, *rest = done.stdout.splitlines()
    assert (done.exit_code, summary) == (3, "unknown: 1 unknown, 4 ok")
    assert first.split()[:2] == ["unknown", "file"]
    assert "README.md" in first
    assert [line.split()[0] for line in rest] == ["ok"] * 4


@pytest.mark.parametrize("arguments", [[], ["--warn-days", "soon"], ["--at", "soon"], ["--bogus"], ["-", "-"]])
def test_wrong_usage_has_the_exit_code_for_an_unknown_state(tppkit, arguments):
    done = tppkit("doctor", *arguments)
    assert (done.exit_code, done.stdout) == (3, "")
    assert "Usage: tppkit doctor" in done.stderr
    if not arguments:
        assert all(option in done.stderr for option in ("FILES", "--crl", "--database", "--archive", "--bank"))


@pytest.mark.parametrize(
    ("days", "status"), [(-1, "critical"), (0.5, "ok"), (334, "ok"), (336, "warning"), (366, "critical")]
)
def test_days_decide_about_certificates(doctor, whole, days, status):
    at = datetime.combine(utc_now().date(), datetime.min.time(), UTC) + timedelta(days=days)
    found, message, left = doctor(whole[0], "--at", at.isoformat())["qwac.validity"]
    assert found == status
    assert left == (datetime.combine(utc_now().date(), datetime.min.time(), UTC) + timedelta(365, -1) - at).days
    assert ("order" in message) is (status != "ok" and days > 0)


def test_a_file_that_cannot_be_read_is_named_and_the_others_are_checked(doctor, bank_pki_folder, tmp_path):
    (tmp_path / "wrong").write_text("another-p4ss\n")
    (tmp_path / "cut.pem").write_bytes((bank_pki_folder / "qseal.pem").read_bytes()[:200])
    for file in (bank_pki_folder / "qwac.p12", tmp_path / "cut.pem", tmp_path / "absent.pem"):
        rows = doctor(file, bank_pki_folder / "qseal.pem", "--password-file", tmp_path / "wrong")
        assert rows["file"][0] == "unknown"
        assert str(file) in rows["file"][1]
        assert rows["qseal.validity"][0] == "ok"
    assert doctor(bank_pki_folder / "qseal.pem", "--password-file", tmp_path / "absent")["file"][0] == "unknown"
    both = doctor(bank_pki_folder / "qwac.p12", "--password-file", bank_pki_folder / "password")
    assert {status for status, _, _ in both.values()} == {"ok"}


@pytest.mark.parametrize("options", [(), ("--crl",), ("--trust",), ("--trusted-lists",), ("--password-file",)])
def test_a_pipe_is_no_file_unless_the_shell_opened_it(doctor, bank_pki_folder, tmp_path, options):
    os.mkfifo(tmp_path / "pipe")
    rows = doctor(bank_pki_folder / "qseal.pem", *options, tmp_path / "pipe")
    (message,) = [text for _, (status, text, _) in rows.items() if status == "unknown"]
    assert str(tmp_path / "pipe") in message
    assert rows["qseal.validity"][0] == "ok"


def test_a_pipe_that_the_shell_opened_is_read(doctor, bank_pki_folder):
    out, into = os.pipe()
    os.write(into, b"test\n")
    os.close(into)
    rows = doctor(bank_pki_folder / "qseal.p12", "--password-file", f"/dev/fd/{out}")
    os.close(out)
    assert rows["qseal.validity"][0] == "ok"


def test_an_encrypted_key_is_read_with_a_password_and_named_without_one(doctor, bank_pki_folder, bank_pki, tmp_path):
    protected = BestAvailableEncryption(b"test")
    file = tmp_path / "qseal.key"
    file.write_bytes(bank_pki.qseal.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, protected))
    status, message, _ = doctor(file)["file"]
    assert (status, str(file) in message, "--password-file" in message) == ("unknown", True, True), message
    assert (
        doctor(file, bank_pki_folder / "qseal.pem", "--password-file", bank_pki_folder / "password")["key"][0] == "ok"
    )


def test_a_weak_authority_is_critical_in_files_and_as_an_anchor(doctor, tmp_path):
    weak, old = rsa.generate_private_key(65537, 1024), rsa.generate_private_key(65537, 2048)
    for name, pem, text in (
        ("weak", authority_pem("Weak TEST Root", weak), "rsa, 1024 bits"),
        ("old", authority_pem("Old TEST CA", old, issuer="Another", digest=hashes.SHA224()), "is signed with"),
    ):
        (tmp_path / name).write_bytes(pem)
        for arguments in ((tmp_path / name,), ("--trust", tmp_path / name)):
            status, message, _ = doctor(*arguments)["authority.algorithms"]
            assert (status, text in message) == ("critical", True), message


def test_keys_pairs_and_chains_that_do_not_fit(doctor, bank_pki_folder, tmp_path, pki):
    files = {
        name: bank_pki_folder / name
        for name in ("qwac.pem", "qwac.key", "qwac-chain.pem", "other-qseal.pem", "qseal.key")
    }
    assert doctor(files["qwac.pem"], files["qseal.key"])["key"][0] == "critical"
    assert doctor(files["qseal.key"])["key"][0] == "unknown"
    assert doctor(bank_pki_folder / "root.pem", bank_pki_folder / "root.key")["key"][0] == "ok"
    assert doctor(files["qwac.pem"], files["other-qseal.pem"])["pair"][0] == "critical"
    status, message, _ = doctor(files["qwac.pem"], files["qwac.key"])["qwac.chain"]
    assert (status, "tppkit TEST QWAC CA" in message) == ("warning", True)
    (tmp_path / "other-root.pem").write_bytes(certificate_pem(make_pki(at=utc_now(), seed=2).root.certificate))
    assert doctor(files["qwac-chain.pem"], "--trust", tmp_path / "other-root.pem")["qwac.chain"][0] == "critical"


@pytest.mark.parametrize(
    ("at", "status"), [("2027-01-01", "ok"), ("2028-12-10", "warning"), ("2029-02-01", "critical")]
)
def test_the_end_of_an_algorithm_is_a_row(doctor, rsa_pki, tmp_path, at, status):
    (tmp_path / "qseal.pem").write_bytes(certificate_pem(rsa_pki.qseal.certificate))
    found, message, left = doctor(tmp_path / "qseal.pem", "--at", at)["qseal.algorithms"]
    assert (found, left) == (status, (date(2029, 1, 1) - date.fromisoformat(at)).days)
    assert "2029-01-01" in message


@pytest.mark.parametrize(("issued", "status"), [("2026-03-01", "ok"), ("2026-09-15", "warning")])
def test_a_public_qwac_loses_client_auth(doctor, tmp_path, issued, status):
    made = make_pki(at=parse_time(issued), seed=4, policy="ev")
    (tmp_path / "qwac.pem").write_bytes(certificate_pem(made.qwac.certificate))
    found, message, left = doctor(tmp_path / "qwac.pem", "--at", "2026-10-15")["qwac.client-auth"]
    assert (found, left, "2027-03-15" in message) == (status, 151, True)
    assert "Chrome Root Program Policy 1.8" in message


def test_a_check_that_nothing_ends_is_a_line():
    checkup = Checkup()
    checkup.add_within(0.05, "bank.connection", lambda: sleep(9) or [])
    (row,) = checkup.rows
    assert (row.name, row.status) == ("bank.connection", "critical")


def test_an_error_costs_no_row_before_it():
    def check():
        yield Row("bank.certificate", Status.OK, "it is valid")
        raise OverflowError

    checkup = Checkup()
    checkup.add("clock", check)
    assert [row.name for row in checkup.rows] == ["bank.certificate", "clock"]


def authority_pem(name: str, key=None, *, issuer: str | None = None, digest=None) -> bytes:
    """An authority of another name than those of the test PKIs."""
    key, at = key or ec.generate_private_key(ec.SECP256R1()), utc_now()
    subject, above = (x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, one)]) for one in (name, issuer or name))
    builder = x509.CertificateBuilder(above, subject, key.public_key(), 1, at, at + timedelta(days=99))
    built = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True).sign(
        key, digest or hashes.SHA256()
    )
    return built.public_bytes(Encoding.PEM)


@contextmanager
def server(serve: Callable[[socket.socket], object]) -> Iterator[str]:
    """Serve each connection by a function; gives the address."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def one(plain: socket.socket) -> None:
            plain.settimeout(10)
            with suppress(OSError), plain:
                serve(plain)

        def accept() -> None:
            with suppress(OSError):
                while True:
                    threading.Thread(target=one, args=(listener.accept()[0],), daemon=True).start()

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        yield f"https://localhost:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(10)


def over_tls(
    folder: Path, serve: Callable[[ssl.SSLSocket], object], **settings: object
) -> Callable[[socket.socket], object]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server-chain.pem", folder / "server.key")
    if anchors := settings.pop("client_anchors", None):
        context.load_verify_locations(str(anchors))
        context.verify_mode = ssl.CERT_REQUIRED
    for name, value in settings.items():
        setattr(context, name, value)

    def wrapped(plain: socket.socket) -> None:
        with context.wrap_socket(plain, server_side=True) as connection:
            serve(connection)

    return wrapped


def answer(date: str | None, status: str = "302 Found") -> Callable[[ssl.SSLSocket], object]:
    line = "" if date is None else f"Date: {date}\r\n"

    def serve(connection: ssl.SSLSocket) -> None:
        connection.recv(4096)
        connection.sendall(f"HTTP/1.1 {status}\r\nLocation: https://elsewhere.example/\r\n{line}\r\n".encode())

    return serve


def test_the_sandbox_accepts_the_qwac_and_the_doctor_sees_what_it_asked_for(doctor, bank_pki_folder, whole, tmp_path):
    with run_sandbox(SandboxSettings(tmp_path / "sandbox", pki=bank_pki_folder)) as bank:
        trusting = ("--bank", bank.addresses.psd2_url, "--trust", bank_pki_folder / "root.pem")
        rows = doctor(*trusting, *whole)
        assert {name: status for name, (status, _, _) in rows.items() if status != "ok"} == {}
        assert "the handshake with the QWAC succeeds" in rows["bank.client-certificate"][1]
        assert rows["bank.certificate"][2] in (363, 364)
        assert "give the QWAC and its key" in doctor(*trusting)["bank.client-certificate"][1]
        status, message, _ = doctor("--bank", bank.addresses.psd2_url)["bank.connection"]
        assert (status, "its certificate is rejected" in message) == ("critical", True)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_bank_that_trusts_another_authority_refuses_the_qwac(doctor, bank_pki_folder, whole, tmp_path, version):
    (tmp_path / "theirs.pem").write_bytes(authority_pem("Other TEST Root"))
    settings = {"client_anchors": tmp_path / "theirs.pem", "maximum_version": version}
    trusting = ("--trust", bank_pki_folder / "root.pem")
    with server(over_tls(bank_pki_folder, answer(None), **settings)) as url:
        status, message, _ = doctor(*whole, "--bank", url, *trusting)["bank.connection"]
        assert (status, "it refuses the QWAC" in message) == ("critical", True)
        status, message, _ = doctor("--bank", url, *trusting)["bank.connection"]
        assert (status, "give the QWAC and its key" in message) == ("critical", True)


def flight(*names: bytes) -> bytes:
    """A CertificateRequest of TLS 1.2 and the end of the server's first messages."""
    listed = b"".join(len(name).to_bytes(2) + name for name in names)
    body = b"\x01\x40" + b"\0\2\4\3" + len(listed).to_bytes(2) + listed
    messages = b"\x0d" + len(body).to_bytes(3) + body + b"\x0e\0\0\0"
    return b"\x16\3\3" + len(messages).to_bytes(2) + messages


def test_the_authorities_that_the_bank_names_are_compared_with_the_chain(doctor, bank_pki, whole):
    other = x509.load_pem_x509_certificate(authority_pem("Other TEST Root")).subject.public_bytes()
    for names, status, text in (
        ((other,), "warning", "certificate of CN=Other TEST Root; none of these issued the QWAC"),
        ((other, bank_pki.root.certificate.subject_der), "unknown", "CN=Other TEST Root; CN=tppkit TEST Root CA"),
        ((b"\x30\xff", other), "warning", "CN=Other TEST Root; 1 more"),
    ):
        with server(lambda plain, names=names: plain.sendall(flight(*names))) as url:
            found, message, _ = doctor(*whole, "--bank", url)["bank.client-certificate"]
        assert (found, text in message) == (status, True), message


@pytest.mark.parametrize(
    ("status", "found", "text"),
    [
        ("204 No Content", "ok", "succeeds"),
        ("400 Bad Request", "warning", "refuses"),
        ("403 Forbidden", "ok", "may be about it"),
    ],
)
def test_a_proxy_refuses_a_certificate_by_the_status(doctor, bank_pki_folder, whole, status, found, text):
    root = bank_pki_folder / "root.pem"
    for least in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        serving = over_tls(bank_pki_folder, answer(None, status), client_anchors=root, minimum_version=least)
        with server(serving) as url:
            state, message, _ = doctor(*whole, "--bank", url, "--trust", root)["bank.client-certificate"]
        assert (state, text in message) == (found, True), message
        assert ("no TLS 1.2" in message) is (least is ssl.TLSVersion.TLSv1_3)


def trickle(connection: ssl.SSLSocket) -> None:
    connection.recv(4096)
    connection.sendall(b"HTTP/1.1 200 OK\r\n")
    while True:
        connection.sendall(b"X-Filler: " + b"." * 10_000 + b"\r\n")


HOSTILE = {
    "hangs": (lambda plain: plain.recv(1 << 20) and plain.recv(1 << 20), "no answer within 1 seconds"),
    "resets": (lambda plain: plain.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0"), ""),
    "speaks no TLS": (
        lambda plain: plain.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n"),
        "TLS fails: wrong version number",
    ),
    "sends a wrong handshake": (lambda plain: plain.sendall(b"\x16\x03\x03\x00\x04\x0d\xff\xff\xff" * 9), "TLS fails"),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_bank_without_a_handshake_is_a_line(doctor, monkeypatch, kind):
    monkeypatch.setattr(doctor_bank, "LIMIT_S", 1.0)
    serve, reason = HOSTILE[kind]
    with server(serve) as url:
        status, message, _ = doctor("--bank", url)["bank.connection"]
    assert (status, reason in message) == ("critical", True), message


@pytest.mark.parametrize(
    ("serve", "reason"),
    [
        (trickle, "more than 64 KiB of headers"),
        (lambda connection: connection.recv(4096) and connection.recv(4096), "no answer within 1 seconds"),
        (lambda connection: connection.sendall(b"220 mail.example ESMTP\r\n\r\n"), "no answer in HTTP/1.1"),
        (lambda connection: connection.sendall(b"HTTP/1.1 200 OK\r\nDate: "), "or only a part of it"),
    ],
)
def test_a_bank_without_an_answer_is_a_line(doctor, bank_pki_folder, monkeypatch, serve, reason):
    monkeypatch.setattr(doctor_bank, "LIMIT_S", 1.0)
    with server(over_tls(bank_pki_folder, serve)) as url:
        rows = doctor("--bank", url, "--trust", bank_pki_folder / "root.pem")
    assert rows["bank.connection"][0] == "critical", rows
    assert reason in rows["bank.connection"][1]
    assert "no connection" not in rows["bank.connection"][1]


def test_the_shortest_answer_is_one(doctor, bank_pki_folder):
    def serve(connection: ssl.SSLSocket) -> None:
        connection.recv(4096)
        connection.sendall(b"HTTP/1.1 204\r\n\r\n")

    with server(over_tls(bank_pki_folder, serve)) as url:
        rows = doctor("--bank", url, "--trust", bank_pki_folder / "root.pem")
    assert (rows["bank.connection"][0], rows["clock"][0]) == ("ok", "unknown")


@pytest.mark.parametrize(
    ("late_s", "status", "text"),
    [
        (0, "ok", "agree"),
        (90, "warning", "seconds ahead"),
        (-86_400, "critical", "seconds behind"),
        (None, "unknown", "no Date"),
        ("Fri, 31 Dec 9999 23:59:59 GMT", "critical", "seconds behind"),
        ("Mon, 01 Jan 0001 00:00:00 GMT", "critical", "seconds ahead"),
    ],
)
def test_the_date_of_the_bank_is_compared_with_this_clock(doctor, bank_pki_folder, late_s, status, text):
    date = format_http_date(utc_now() - timedelta(seconds=late_s)) if isinstance(late_s, int) else late_s
    with server(over_tls(bank_pki_folder, answer(date))) as url:
        rows = doctor("--bank", url, "--trust", bank_pki_folder / "root.pem")
    assert (rows["clock"][0], text in rows["clock"][1]) == (status, True), rows
    assert rows["bank.certificate"][0] == "ok"


def test_a_crl_is_late_before_its_end_and_revokes(doctor, bank_pki_folder, whole, tppkit, tmp_path):
    folder = tmp_path / "pki"
    write_pki(make_pki(at=utc_now(), seed=3), folder)
    qwac, crl = folder / "qwac-chain.pem", folder / "issuing-ca-qwac.crl"
    trusting = ("--trust", folder / "root.pem", "--crl", crl)
    at = utc_now() + timedelta(days=340)
    assert doctor(qwac, *trusting, "--at", at.isoformat())["crl"][0] == "warning"
    assert doctor(qwac, *trusting, "--at", (at + timedelta(days=40)).isoformat())["crl"][0] == "critical"
    foreign = doctor(qwac, "--trust", folder / "root.pem", "--crl", bank_pki_folder / "issuing-ca-qwac.crl")
    assert foreign["revocation"][0] == "critical"  # of an authority with the same name, but another key
    assert "crl.signature" in foreign["revocation"][1]
    assert doctor(qwac, "--crl", folder / "issuing-ca-qseal.crl")["crl"][0] == "warning"
    assert doctor(qwac, "--crl", qwac)["crl"][0] == "unknown"
    assert tppkit("pki", "revoke", folder / "qwac.pem").exit_code == 0
    status, message, _ = doctor(qwac, *trusting)["revocation"]
    assert (status, "tpp.test.example.com is revoked" in message) == ("critical", True)


def test_a_chain_that_holds_is_not_enough_where_the_lists_do_not_grant_it(doctor, bank_pki_folder, tmp_path):
    other = tmp_path / "other"
    write_pki(make_pki(at=utc_now(), seed=5), other)
    trusting = ("--trust", bank_pki_folder / "root.pem", "--trusted-lists")
    assert (
        doctor(bank_pki_folder / "qwac-chain.pem", *trusting, bank_pki_folder / "trusted-lists")["qwac.chain"][0]
        == "ok"
    )
    status, message, _ = doctor(bank_pki_folder / "qwac-chain.pem", *trusting, other / "trusted-lists")["qwac.chain"]
    assert (status, "trusted-list." in message) == ("critical", True), message


def test_trusted_lists_end_and_an_empty_folder_has_none(doctor, bank_pki_folder, tmp_path):
    lists = bank_pki_folder / "trusted-lists"
    for days, status in ((1, "ok"), (170, "warning"), (200, "critical")):
        rows = doctor("--trusted-lists", lists, "--at", (utc_now() + timedelta(days=days)).isoformat())
        assert rows["trusted-list"][0] == status
    (tmp_path / "empty").mkdir()
    assert doctor("--trusted-lists", tmp_path / "empty")["trusted-list"][0] == "unknown"


def test_a_database_is_written_without_a_trace(doctor, tmp_path, monkeypatch):
    monkeypatch.setattr(command, "_WAIT_S", 0.2)
    file = tmp_path / "tpp.sqlite"
    with closing(sqlite3.connect(file)) as database:
        database.execute("CREATE TABLE payments (id INTEGER)")
        before = file.read_bytes()
        assert doctor("--database", f"sqlite:///{file}")["database"][0] == "ok"
        assert file.read_bytes() == before
        database.execute("BEGIN EXCLUSIVE")
        status, message, _ = doctor("--database", f"sqlite:///{file}")["database"]
        assert (status, "locked" in message) == ("critical", True)
    (tmp_path / "text.sqlite").write_text("no database " * 99)
    assert doctor("--database", f"sqlite:///{tmp_path}/text.sqlite")["database"][0] == "critical"
    os.mkfifo(tmp_path / "pipe")
    for address, status, text in (
        (f"/{tmp_path}/absent.sqlite", "critical", "there is no file"),
        (f"/{tmp_path}/pipe", "critical", "is not a regular file"),
        (f"/file:{file}?mode=ro&uri=true", "unknown", "give the path of its file"),
        ("", "unknown", "give the path of its file"),
    ):
        found, message, _ = doctor("--database", f"sqlite://{address}")["database"]
        assert (found, text in message, "disk" in message) == (status, True, False), message
    (tmp_path / "pipe").unlink()
    assert sorted(one.name for one in tmp_path.iterdir()) == ["text.sqlite", "tpp.sqlite"]


def test_postgresql_is_written_and_one_that_hangs_or_is_read_only_is_a_line(doctor, postgresql_url):
    url = postgresql_url.replace("postgresql:", "postgresql+psycopg:", 1)
    assert doctor("--database", url)["database"][0] == "ok"
    read_only = f"{url}&options=-c%20default_transaction_read_only%3Don"
    status, message, _ = doctor("--database", read_only)["database"]
    assert (status, "read-only transaction" in message) == ("critical", True)
    with psycopg.connect(postgresql_url, autocommit=True) as connection:
        connection.execute("CREATE ROLE tpp LOGIN")
        connection.execute("REVOKE TEMPORARY ON DATABASE postgres FROM PUBLIC")
    status, message, _ = doctor("--database", url.replace("user=tppkit", "user=tpp"))["database"]
    assert (status, "the right TEMPORARY" in message) == ("critical", True), message
    status, message, _ = doctor("--database", url.replace("user=tppkit", "user=nobody"))["database"]
    assert (status, "user and password" in message) == ("critical", True), message
    with relay_to(postgresql_url) as (relayed, silent):
        relayed = relayed.replace("postgresql:", "postgresql+psycopg:", 1)
        assert doctor("--database", relayed)["database"][0] == "ok"
        silent.set()
        begin = monotonic()
        assert doctor("--database", relayed)["database"][0] == "critical"
        assert monotonic() - begin < 13


@pytest.mark.parametrize(
    ("address", "status"),
    [
        ("postgresql+psycopg://tpp:{}@127.0.0.1:9/tpp", "critical"),
        ("postgresql+psycopg://tpp:{}@127.0.0.1:nine/tpp", "unknown"),
        ("oracle://tpp:{}@127.0.0.1/tpp", "unknown"),
        ("{}", "unknown"),
    ],
)
def test_no_line_has_the_password_of_a_database(tppkit, address, status):
    done = tppkit("doctor", "--database", address.format(DATABASE_PASSWORD), "--json")
    assert done.json["status"] == status
    assert DATABASE_PASSWORD not in done.stdout + done.stderr


def test_an_archive_is_checked_at_its_end(doctor, tppkit, tmp_path, bank_pki):
    seal = Seal(bank_pki.qseal.certificate, KeySigner(bank_pki.qseal.key))
    policy = SealPolicy(PathVerifier(make_anchors(bank_pki.authorities)))
    folder = tmp_path / "evidence"
    with EvidenceArchive(folder, stream_id="5a" * 16) as archive:
        assert doctor("--archive", folder)["archive"][0] == "warning"  # empty
        for number in range(5):
            message = Message("POST", "/psd2/v1/consents", (("X-Request-ID", str(UUID(int=number))),), b"{}")
            verified = verify_request(
                sign_request(message, seal=seal), qwac=bank_pki.qwac.certificate, at=utc_now(), policy=policy
            )
            archive.append(make_record(verified, http_status=201), *verified.chain, verified.qwac)
        assert doctor("--archive", folder)["archive"][0] == "ok"  # while it is open
    lines = (folder / "records.jsonl").read_bytes().splitlines(keepends=True)
    for changed, text in (
        (lines[:2] + lines[3:], "log.gap"),
        ([*lines[:4], lines[4].replace(b"consents", b"payments")], "record.leaf"),
        ([*lines, lines[4][:40]], "incomplete"),
        ([b"{}\n"], f"no line at the end of {folder} is a record: "),
    ):
        (folder / "records.jsonl").write_bytes(b"".join(changed))
        status, message, _ = doctor("--archive", folder)["archive"]
        assert (status, text in message) == ("critical", True), message
    (folder / "records.jsonl").write_bytes(b"".join(lines[3:]))
    (folder / "records-000000000000.jsonl").write_bytes(b"".join(lines[:3]))
    assert tppkit("audit", "seal", folder).exit_code == 0
    assert doctor("--archive", folder)["archive"][0] == "ok"
    (sealed,) = (folder / "segments").glob("*.parquet")
    sealed.unlink()
    status, message, _ = doctor("--archive", folder)["archive"]
    assert (status, "file is missing" in message) == ("critical", True), message
    assert doctor("--archive", tmp_path / "absent")["archive"][0] == "unknown"
