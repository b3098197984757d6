"""Every code block of the pages in docs/ runs, in order and in this interpreter, and prints what the page shows."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from code import InteractiveConsole
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType
from uuid import UUID

import pytest

from programs import TPPKIT, needed
from servers import pages
from tppkit._clock import utc_now
from tppkit.client import Identity
from tppkit.evidence import EvidenceArchive, make_record
from tppkit.sandbox import SandboxSettings, run_sandbox
from tppkit.seals import KeySigner, Message, Seal, SealPolicy, sign_request, verify_request
from tppkit.testpki import Issued, Pki, certificate_pem, make_pki
from tppkit.testpki.pem import key_pem
from tppkit.testpki.trusted_lists import make_trusted_lists
from tppkit.trust import PathVerifier, Reloader, make_anchors

pytestmark = pytest.mark.slow

DOCS = Path(__file__).parents[1] / "docs"
PAGES = {
    path.stem: path
    for folder in ("tutorials", "how-to", "explanation", "reference")
    for path in (DOCS / folder).glob("*.md")
}
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)

CALLBACKS = ["verify-callbacks", "why-a-callback-was-rejected"]
Run = Callable[..., str]

# Pages whose blocks are Python alone, with those that go on from them, and what they print where the pages have no block of it
PRINTED = [
    (["check-certificates"], "PSDLT-BL-LB000000 ('PSP_PI', 'PSP_AI')\n"),
    (["verify-trust", "check-revocation"], "True 3 good good\n()\n"),
    (["renew-certificates#May this call be made"], "PSP_PI sepa-credit-transfers\n"),
    (["seal-requests", "signed-answers#In Python"], "PSDLT-BL-LB000000 digest x-request-id psu-id\n"),
    (
        ["other-signature-formats", "seals-in-other-formats"],
        '"@method" "@target-uri" "content-digest"\n(request-target) digest\n(body) (\'b64\',)\n'
        "PSDLT-BL-LB000000 (request-target) digest x-request-id\nFalse (body) {'http://openbanking.org.uk/iss': "
        "'0015800001041RHAAY/HQuZPIt3ipkh33Uxytox1E', 'http://openbanking.org.uk/tan': 'openbanking.org.uk'}\n",
    ),
    (["handle-once", "exactly-once"], "applied\nrepeated\nstale\nstored\nr-3 applied\napplied\ncallback.time-unknown\n"),
    (["audit-on-a-cluster"], None),
    (["keep-evidence#Outbox", "keep-evidence-as-a-provider"], None),
    (["legacy-interface"], None),
    (["build-payments"], None),
    (["no-answer"], None),
    (["card-numbers"], "shop.log: card 1, digits, byte 14\n"),
    (["rehearse-failures"], None),
    (["verify-requests", "repeated-requests", "metrics-and-logs", "signed-answers#In the gate"], None),
]  # fmt: skip


def blocks(page: str, kind: str) -> list[str]:
    """The blocks of one kind of a page, or of `page#Heading`, one of its sections."""
    page, _, heading = page.partition("#")
    text = PAGES[page].read_text("utf-8")
    if heading:
        (text,) = re.findall(rf"^## {re.escape(heading)}\n.*?(?=^## |\Z)", text, re.DOTALL | re.MULTILINE)
    return [block for found, block in BLOCK.findall(text) if found == kind]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run blocks of Python as one module, and return what they print."""

    def run(*texts: str) -> str:
        module = ModuleType("page")
        monkeypatch.setitem(sys.modules, "page", module)  # where classes look for the names in their annotations
        assert texts
        exec(compile("\n".join(texts), "page", "exec", dont_inherit=True), vars(module))
        printed = capsys.readouterr()
        assert printed.err == ""
        return printed.out

    return run


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    """Run a block of shell lines in the folder of the test, where its Python runs too."""
    monkeypatch.chdir(tmp_path)

    def shell(text: str) -> str:
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        environment = {**os.environ, "PATH": path, "PYTHONWARNINGS": "error"}
        done = subprocess.run(
            ["bash", "-ec", text], env=environment, capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, done.stderr + done.stdout
        return done.stdout

    return shell


@pytest.mark.parametrize(("pages", "printed"), PRINTED, ids=[pages[0] for pages, _ in PRINTED])
def test_the_python_of_a_page_prints_what_the_page_says(
    pages: list[str], printed: str | None, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    (tmp_path / "testcerts").symlink_to(DOCS.parent / "testcerts")
    monkeypatch.chdir(tmp_path)
    code, texts = ([block for page in pages for block in blocks(page, kind)] for kind in ("python", "text"))
    assert run(*code) == ("".join(texts) if printed is None else printed)
    refusals = ["digest.mismatch", "certificate.missing", "digest.mismatch"] if "verify-requests" in pages else []
    assert [message.rpartition("[")[2].rstrip("]") for message in caplog.messages] == refusals


def keep_evidence(folder: Path, pki: Pki, *, at: datetime) -> None:
    """Append three records of sealed requests."""
    policy = SealPolicy(PathVerifier(make_anchors(pki.authorities)))
    seal = Seal(pki.qseal.certificate, KeySigner(pki.qseal.key))
    with EvidenceArchive(folder, stream_id="5a" * 16) as archive:
        for number in range(3):
            message = Message("POST", "/psd2/v1/consents", (("X-Request-ID", str(UUID(int=number))),), b"{}")
            sent = sign_request(message, seal=seal)
            verified = verify_request(sent, qwac=pki.qwac.certificate, at=at, policy=policy)
            archive.append(make_record(verified, http_status=201), *verified.chain, verified.qwac)


def run_console(page: str, shell: Callable[[str], str], *, only: tuple[str, ...] = ("",)) -> None:
    """Run the commands of a page in order, and find the lines that it shows in what they print."""
    for block in blocks(page, "console"):
        for command, *printed in (part.splitlines() for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]):
            if command.startswith(only):
                shown = shell(command).splitlines()
                assert [line for line in printed if line not in shown] == [], command


def test_the_commands_of_the_audit_page_print_what_it_says(shell, tmp_path):
    at = datetime(2026, 6, 1, 12, tzinfo=UTC)
    pki = make_pki(at=at, seed=1)
    (tmp_path / "authorities.pem").write_bytes(b"".join(certificate_pem(one) for one in pki.authorities))
    keep_evidence(tmp_path / "evidence", pki, at=at)
    shell("tppkit audit log head evidence > head.txt")
    run_console("audit", shell)
    assert (tmp_path / "audit.html").is_file()


def test_the_blocks_about_qr_codes_run(run, shell, tmp_path):
    text = "TX:LT121000011101001000:Bookshop:EUR:12.50::Order 4711"
    assert run(*blocks("qr-codes", "python")).splitlines() == [
        text,
        "https://legacy.example/scan?TX%3ALT121000011101001000%3ABookshop%3AEUR%3A12.50%3A%3AOrder%204711",
        "True",
        "True",
        f"('{text}',)",
    ]
    assert "LOGIN:shop.example/login/7c1f" in shell("\n".join(blocks("qr-codes", "sh"))).splitlines()
    assert sorted(file.name for file in tmp_path.iterdir()) == ["login.png", "login.svg"]


def test_the_blocks_about_callbacks_run(run, shell):
    (first,), (last,) = (blocks(page, "sh") for page in CALLBACKS)
    shell(first)
    printed = run(*(block for page in CALLBACKS for block in blocks(page, "python"))).splitlines()
    assert printed[0] == "live-2026 https://tpp.example/cb/ 2030-01-01 12:00:00+00:00"
    assert printed[1:3] == ["granted until 2030-01-01 12:00:00+00:00", "evidence of r-1 applied"]
    assert printed[3:9] == ["200", "evidence of r-1 repeated", "200", "400", "403", "404"]
    assert [line.partition(" ")[0] for line in printed[9:]] == ["callback.signature", "callback-cause.body-changed"]
    told = shell(last)
    assert told.startswith("holds")
    assert "callback-cause.url-slash" in told


def test_the_blocks_about_diagnoses_run(run, shell):
    assert blocks("why-a-seal-does-not-verify", "text")[-1] in shell(
        "\n".join(blocks("why-a-seal-does-not-verify", "sh"))
    )
    assert run(*blocks("why-a-seal-does-not-verify", "python")) == "explained ['target-base-path-stripped']\n"


def test_the_persona_of_the_page_about_another_bank_is_used(run, shell, tmp_path):
    (tmp_path / "our-bank.toml").write_text(blocks("another-bank", "toml")[0])
    assert shell("\n".join(blocks("another-bank", "sh"))) == "no faults\n"
    assert run(*blocks("another-bank", "python")) == "".join(blocks("another-bank", "text"))


def test_the_commands_about_renewal_find_nothing_wrong(shell):
    printed = shell("\n".join(blocks("renew-certificates", "sh"))).splitlines()
    assert [line for line in printed if line.startswith("holds")] == [
        "holds: certs/qwac.pem and certs/qseal.pem",
        "holds: certs/qwac.pem and certs/next.pem",
    ]


def test_the_commands_of_the_doctor_page_find_nothing_wrong(shell):
    states = [
        line.split()[0]
        for line in shell("\n".join(blocks("doctor", "sh"))).splitlines()
        if line.startswith(("ok", "warn"))
    ]
    assert len(states) > 20
    assert set(states) == {"ok", "ok:"}


def paste(page: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Paste the Python of a page into an interpreter; what is printed after each block is in the block below it."""
    console = InteractiveConsole({"__name__": "__main__"})
    found = BLOCK.findall(PAGES[page].read_text("utf-8"))
    for (kind, block), (after, shown) in zip(found, [*found[1:], ("", "")], strict=True):
        if kind == "python":
            for line in [*block.splitlines(), ""]:
                console.push(line)
            assert tuple(capsys.readouterr()) == (shown if after == "text" else "", ""), block


@pytest.mark.parametrize("page", ["first-payment", "login-and-pay", "card-payment"])
def test_each_step_of_a_tutorial_shows_what_the_page_says(page, shell, capsys):
    shell("\n".join(blocks(page, "sh")))
    callback_url = "https://localhost:9443/cb" if page == "login-and-pay" else None
    with run_sandbox(SandboxSettings("sandbox", pki="certs", callback_url=callback_url)) as bank:
        bank.addresses.write("ready.json")
        paste(page, capsys)


def test_each_step_of_being_the_bank_shows_what_the_page_says(shell, capsys, caplog):
    shell("\n".join(blocks("be-the-bank", "sh")))
    paste("be-the-bank", capsys)
    assert [message[message.rindex("[") :] for message in caplog.messages] == [
        "[digest.mismatch]",
        "[certificate.missing]",
    ]
    run_console("be-the-bank", shell, only=("tppkit audit", "cp"))


def test_the_page_about_installing_names_every_extra_and_its_libraries(shell, tmp_path):
    project = tomllib.loads((DOCS.parent / "pyproject.toml").read_text("utf-8"))["project"]
    named = {"none": project["dependencies"], **project["optional-dependencies"]}
    rows = re.findall(r"^\| `?(\w+)`? \|.*\| ([\w, -]+) \|$", PAGES["install"].read_text("utf-8"), re.MULTILINE)

    def needed_by(extra: str) -> set[str]:
        found = [re.match(r"tppkit\[(\w+)\]|([\w-]+)", one) for one in named[extra]]
        return {library for one in found for library in (needed_by(one[1]) if one[1] else {one[2]})}

    assert {name: {*libraries.split(", ")} for name, libraries in rows[1:]} == {
        name: needed_by(name) for name in named.keys() - {"all", "docs", "dev"}
    }
    (tmp_path / "guide.py").write_text(blocks("install", "python")[0])
    assert shell("python guide.py") == blocks("install", "text")[0]


@pytest.mark.parametrize(("persona", "profile"), [("document", "psd2-v1"), ("berlin-group", "berlin-group")])
def test_the_program_that_goes_from_the_sandbox_to_a_bank_runs(persona, profile, run, shell, monkeypatch):
    shell("tppkit pki create certs")
    rows = re.findall(r"^\| (`[A-Z].*?`) \| (`.*?`) ", PAGES["from-sandbox-to-bank"].read_text("utf-8"), re.MULTILINE)
    with run_sandbox(SandboxSettings("sandbox", pki="certs", persona=persona)) as bank:
        for names, values in rows:
            for name, value in zip(*(re.findall(r"`(.+?)`", cell) for cell in (names, values)), strict=True):
                monkeypatch.setenv(name, getattr(bank.addresses, value, value))
        monkeypatch.setenv("BANK_PERSONA", persona)
        monkeypatch.setenv("BANK_PROFILE", profile)
        assert run(*blocks("from-sandbox-to-bank", "python")) == blocks("from-sandbox-to-bank", "text")[0]


@pytest.fixture
def devices(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The environment of a machine with SoftHSM2 and a key in KMS."""
    import boto3  # takes long, so only where it is needed
    from moto.server import ThreadedMotoServer

    needed("softhsm2-util", "softhsm2")
    (tmp_path / "tokens").mkdir()
    (tmp_path / "softhsm2.conf").write_text(f"directories.tokendir = {tmp_path / 'tokens'}\n")
    monkeypatch.setenv("SOFTHSM2_CONF", str(tmp_path / "softhsm2.conf"))
    for name, value in (("ACCESS_KEY_ID", "test"), ("SECRET_ACCESS_KEY", "test"), ("DEFAULT_REGION", "eu-central-1")):
        monkeypatch.setenv(f"AWS_{name}", value)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    monkeypatch.setenv("AWS_ENDPOINT_URL_KMS", "http://{}:{}".format(*server.get_host_and_port()))
    kms = boto3.client("kms")
    key = kms.create_key(KeySpec="ECC_NIST_P256", KeyUsage="SIGN_VERIFY")["KeyMetadata"]["KeyId"]
    kms.create_alias(AliasName="alias/seal-2026", TargetKeyId=key)
    yield
    server.stop()


def test_the_blocks_about_identities_run(shell, devices, tmp_path):
    shell("\n".join(blocks("call-a-bank", "sh") + blocks("keys-in-hsm-or-kms", "sh")))
    parts = ["call-a-bank", "tls-settings", "renew-certificates#Expiry and renewal", "keys-in-hsm-or-kms"]
    (tmp_path / "guide.py").write_text("\n".join(block for part in parts for block in blocks(part, "python")))
    assert shell("PYTHONWARNINGS= python guide.py").splitlines() == ["201 RCVD", "ecdsa-sha256", "ecdsa-sha256"]


def test_the_search_block_of_the_gateway_prints_what_the_page_says(run):
    assert run(blocks("take-card-payments", "python")[0]) == blocks("take-card-payments", "text")[0]


def test_the_block_about_further_payments_of_the_gateway_runs(run, shell):
    shell("tppkit pki create certs")
    assert run(blocks("take-card-payments", "python")[1]) == blocks("take-card-payments", "text")[1]


def test_the_checkout_of_the_gateway_runs_by_curl_alone(shell, tmp_path):
    needed("jq")
    shell("tppkit pki create certs")
    with run_sandbox(SandboxSettings(tmp_path / "sandbox", pki=tmp_path / "certs")) as server:
        server.addresses.write(tmp_path / "ready.json")
        assert shell(blocks("test-card-payments", "sh")[0]) == blocks("test-card-payments", "text")[0]


def test_the_client_of_the_page_about_containers_uses_the_token(run, tmp_path, monkeypatch):
    token = "0123456789abcdef"
    settings = SandboxSettings(tmp_path / "sandbox", control_host="127.0.0.1", control_token=token)
    with run_sandbox(settings) as server:
        monkeypatch.setenv("TPPKIT_CONTROL_TOKEN", token)
        monkeypatch.setenv("SANDBOX_CONTROL", server.addresses.control_url)
        used = "before_each_test()\nprint(control.get('/requests').json())\ncontrol.close()\n"
        assert run(*blocks("in-ci-and-containers", "python"), used) == "[]\n"


# The fields of a line in /etc/cron.d: five of the time, the account, the command.
CRON = re.compile(r"(?:[\d*][\d,*/-]* +){5} *(\w+) +(.+)")


class Machine:
    """A machine as the guide for production has it, in a folder: its paths, and a web server with lists and CRLs."""

    def __init__(self, root: Path, address: str, found: dict[str, bytes]) -> None:
        self.root, self.pki = root, make_pki(at=utc_now(), seed=3, services_url=address)
        etc, var = root / "etc/bank", root / "var/lib/bank"
        for folder in (
            etc / "anchors",
            etc / "own",
            var / "crls",
            var / "heads",
            var / "lists.2026/lotl-signers",
            root / "var/backups",
        ):
            folder.mkdir(parents=True)
        (var / "lists").symlink_to("lists.2026")
        signer = certificate_pem(self.pki.members["lotl-signer"].certificate)
        (var / "lists/lotl-signers/a.pem").write_bytes(signer)
        found |= make_trusted_lists(self.pki, at=utc_now())
        found |= {f"{issuer.label}.crl": self.pki.crl(issuer, at=utc_now()) for issuer in self.pki.issuers}
        (etc / "crls.txt").write_text("".join(f"{one.label} {address}/{one.label}.crl\n" for one in self.pki.issuers))
        (etc / "anchors/all.pem").write_bytes(b"".join(map(certificate_pem, self.pki.authorities)))
        self.write(etc / "own", "qwac", self.pki.qwac)
        self.write(etc / "own", "qseal", self.pki.qseal)
        self.write(root, "new-qwac", self.pki.issue_qwac(self.pki.provider, label="new"))
        keep_evidence(var / "archive", self.pki, at=utc_now())
        (var / "gate.log").write_text('{"request_id": "7f9c24e8-3b12-4f6b-9d3a-0c1f1e9b6a55"}\n')
        self._lists = f"--url {address}/eu-lotl.xml --allow-private"

    @staticmethod
    def write(folder: Path, name: str, issued: Issued) -> None:
        (folder / f"{name}.pem").write_bytes(b"".join(map(certificate_pem, (issued.certificate, *issued.chain))))
        (folder / f"{name}.key").write_bytes(key_pem(issued.key))

    def here(self, text: str) -> str:
        """A text of the guide with the paths and addresses of this machine."""
        for known in ("/etc/bank", "/var/lib/bank", "/var/backups"):
            text = text.replace(known, f"{self.root}{known}")
        return text.replace("tppkit trust fetch", f"tppkit trust fetch {self._lists}")


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    with pages() as (address, found):
        yield Machine(tmp_path, address, found)


def test_every_line_of_the_guide_for_production_does_what_it_says(machine, run, shell, tmp_path, monkeypatch):
    needed("curl")
    var, programs = tmp_path / "var/lib/bank", tmp_path / "usr/local/bin"
    programs.mkdir(parents=True)
    for script in blocks("run-in-production", "sh"):
        (name,) = re.findall(r"^# /usr/local/bin/(.+)$", script, re.MULTILINE)
        (programs / name).write_text(machine.here(script))
        (programs / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    (table,) = blocks("run-in-production", "text")
    lines = [line for line in table.splitlines() if line and "=" not in line.split()[0] and line[0] != "#"]
    found = [CRON.fullmatch(line) for line in lines]
    assert all(one is not None and one[1] == "bank" for one in found), lines
    (var / "bank.sqlite").touch()  # empty, as SQLite makes a database
    for line in filter(None, found):
        shell(machine.here(line[2].replace("\\%", "%")))
    assert sorted(one.name for one in (var / "lists").iterdir()) == ["EU-LOTL.xml", "LT.xml", "lotl-signers"]
    assert sorted(one.name for one in (var / "crls").glob("*.crl")) == sorted(
        f"{one.label}.crl" for one in machine.pki.issuers
    )
    (head,) = (var / "heads").iterdir()
    assert head.read_text().splitlines()[1] == "3"
    own = machine.root / "etc/bank/own"
    trusted = (
        f"print(bool(material.verify_use(load_certificates({str(own / 'qwac.pem')!r})[0], as_=Use.QWAC, at=utc_now())))"
    )
    imports = "from tppkit._clock import utc_now\nfrom tppkit.certificates import Use, load_certificates"
    scraped = "from prometheus_client import generate_latest\nprint(generate_latest().decode())"
    code = map(machine.here, blocks("run-in-production", "python"))
    first, *exported = run(*code, imports, trusted, "with reloader: ...", scraped).splitlines()
    assert first == "True"
    guide = PAGES["run-in-production"].read_text("utf-8")
    assert {f"# TYPE {name} counter" for name in re.findall(r"tppkit_\w+_total", guide)} <= set(exported)
    identity = Identity.from_files(qwac=own / "qwac.pem", qwac_key=own / "qwac.key")
    recipe, reloader = blocks("metrics-and-logs#Log lines", "python")[0], Reloader(identity, every=60)
    run("import json", recipe.replace("gate.log", str(var / "reload.log")))
    shutil.copytree(var / "archive", tmp_path / "var/backups/archive")
    for block in blocks("run-in-production", "console"):
        for command in re.split(r"^ *\$ ", block, flags=re.MULTILINE)[1:]:
            if not command.startswith("nginx"):  # the soak reads nginx again
                shell(machine.here(command))
    started = "from starlette.testclient import TestClient\nwith TestClient(make_bank()) as client:\n    print(client.get('/').status_code)"
    assert run(*map(machine.here, blocks("verify-requests", "python")), started).splitlines()[-1] == "401"
    reloader.check()
    assert "Identity: reloaded" in (var / "reload.log").read_text()


def test_the_units_of_systemd_fetch_the_lists(machine, shell, tmp_path):
    needed("systemd-analyze", "systemd")
    lists, (text,) = tmp_path / "var/lib/bank/lists", blocks("is-it-qualified", "ini")
    text = text.replace("/opt/tppkit/bin/tppkit", str(TPPKIT)).replace("/var/lib/tppkit", "/var/lib/bank")
    units = re.split(r"^# /etc/systemd/system/(.+)$", text, flags=re.MULTILINE)[1:]
    for name, content in zip(units[::2], units[1::2], strict=True):
        (tmp_path / name).write_text(content)
    assert shell(f"systemd-analyze verify --man=no {' '.join(units[::2])} 2>&1") == ""
    before = lists.readlink()
    (command,) = re.findall(r"^ExecStart=(.+)$", text, re.MULTILINE)
    shell(machine.here(command))
    assert lists.readlink() != before
