"""What importing a package costs, and what an absent extra says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import extras
from tppkit.qr import Login, make_picture

pytestmark = pytest.mark.slow

TOOLKIT = ("certificates", "qr", "trust", "httpsig", "seals", "testpki", "evidence")
STANDARD = set(sys.stdlib_module_names) | {
    "tppkit",
    "cryptography",
    "asn1crypto",
    "_cffi_backend",
    "_openssl",
    "cffi",
    "typing_extensions",
}


def _python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("package", TOOLKIT)
def test_the_toolkit_loads_only_cryptography_and_asn1crypto(package):
    before = "import sys; before = set(sys.modules); "
    done = _python(
        f"{before}import tppkit.{package}; print(*{{m.partition('.')[0] for m in set(sys.modules) - before}})"
    )
    assert done.returncode == 0, done.stderr
    assert set(done.stdout.split()) <= STANDARD


@pytest.mark.parametrize("package", ["starlette", "uvicorn", "OpenSSL", "sqlalchemy", "jinja2"])
def test_an_absent_package_names_the_extra_to_install(package, tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    # None in sys.modules is how Python itself marks a module that must not be found
    done = _python(
        f"import sys; sys.modules['{package}'] = None; sys.argv = ['tppkit', 'demo']; from tppkit.cli.main import run; run()"
    )
    assert done.returncode == 2
    assert "tppkit[sandbox]" in done.stderr
    assert "extra.missing" in done.stderr
    assert "Traceback" not in done.stderr
    assert not [*tmp_path.iterdir()]


HIDDEN = [
    "boto3", "fastapi", "flask", "lxml", "opentelemetry", "pkcs11", "prometheus_client", "pyarrow", "pyspark", "pytest", "rfc3161_client",
    "segno", "sqlalchemy", "uvicorn", "zxingcpp",
]  # fmt: skip
RUN_EACH = f"""
import sys
sys.path.append(sys.argv[1])
sys.modules |= dict.fromkeys({HIDDEN})
from extras import NEEDS, result
print(*map(result, NEEDS), sep="\\n")
"""


def test_what_needs_an_extra_names_it():
    command = [sys.executable, "-c", RUN_EACH, str(Path(extras.__file__).parent)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    for (line, needed), shown in zip(extras.NEEDS.items(), done.stdout.splitlines(), strict=True):
        assert shown.startswith("extra.missing"), line
        assert shown.endswith(f"pip install 'tppkit[{needed.split()[0]}]'"), line  # the first that is absent


@pytest.mark.parametrize(
    "command", [[], ["sandbox"], ["sandbox", "up"], ["sandbox", "clock", "advance"], ["demo"], ["callback", "listen"]]
)
def test_help_needs_no_extra(command):
    absent = "sys.modules |= dict.fromkeys(['OpenSSL', 'httptools', 'jinja2', 'segno', 'sqlalchemy', 'starlette', 'uvicorn'])"
    arguments = ["tppkit", *command, "--help"]
    done = _python(f"import sys; {absent}; sys.argv = {arguments}; from tppkit.cli.main import run; run()")
    assert (done.returncode, done.stderr) == (0, "")
    assert "Usage: " in done.stdout


def test_a_control_call_which_health_checks_repeat_does_not_load_the_sandbox():
    arguments = ["tppkit", "sandbox", "clock", "show", "--control", "http://127.0.0.1:1"]
    absent = "sys.modules['tppkit.sandbox'] = None; os.environ['TPPKIT_CONTROL_TOKEN'] = 'a' * 32"
    done = _python(f"import os, sys; {absent}; sys.argv = {arguments}; from tppkit.cli.main import run; run()")
    assert (done.returncode, "[control.no-answer]" in done.stderr) == (3, True), done.stderr


def test_a_command_names_the_extra_of_its_pictures(tmp_path):
    (tmp_path / "code.png").write_bytes(make_picture(Login("https://shop.example/")).png())
    command = ["tppkit", "qr", "read", str(tmp_path / "code.png")]
    done = _python(
        f"import sys; sys.modules['PIL'] = None; sys.argv = {command}; from tppkit.cli.main import run; run()"
    )
    assert done.returncode == 2
    assert "tppkit[scan]" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("command", "absent"),
    [
        (["--database", "sqlite:///absent"], ["trust", "httpsig", "evidence", "client"]),
        (["--archive", "absent"], ["client", "sql"]),
        (["absent.pem"], ["evidence", "client", "sql"]),
    ],
)
def test_the_doctor_loads_only_what_it_is_asked_to_check(command, absent, tmp_path):
    done = _python(
        f"import sys; from tppkit.cli.main import main; main({['doctor', *command]}, standalone_mode=False);"
        " print('loaded', *sys.modules)"
    )
    loaded = done.stdout.partition("loaded")[2].split()
    assert "tppkit.cli.doctor" in loaded, done.stderr
    assert not [name for name in absent if f"tppkit.{name}" in loaded]
