"""What importing a package costs, and what an absent extra says."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tppkit.qr import Login, make_picture

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


def test_the_fixtures_name_their_extra():
    done = _python("import sys; sys.modules['pytest'] = None; import tppkit.testing")
    assert "this needs pytest: install it with pip install 'tppkit[testing]'" in done.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    "command", [[], ["sandbox"], ["sandbox", "up"], ["sandbox", "clock", "advance"], ["demo"], ["callback", "listen"]]
)
def test_help_needs_no_extra(command):
    absent = "sys.modules |= dict.fromkeys(['OpenSSL', 'httptools', 'jinja2', 'segno', 'sqlalchemy', 'starlette', 'uvicorn'])"
    arguments = ["tppkit", *command, "--help"]
    done = _python(f"import sys; {absent}; sys.argv = {arguments}; from tppkit.cli.main import run; run()")
    assert (done.returncode, done.stderr) == (0, "")
    assert "Usage: " in done.stdout


@pytest.mark.parametrize(
    ("package", "extra", "arguments"),
    [
        ("segno", "qr", ["login", "https://shop.example/"]),
        ("PIL", "scan", ["read", "code.png"]),
        ("zxingcpp", "scan", ["read", "code.png"]),
    ],
)
def test_qr_names_the_extra_of_its_pictures(package, extra, arguments, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "code.png").write_bytes(make_picture(Login("https://shop.example/")).png())
    command = ["tppkit", "qr", *arguments]
    done = _python(
        f"import sys; sys.modules['{package}'] = None; sys.argv = {command}; from tppkit.cli.main import run; run()"
    )
    assert done.returncode == 2
    assert f"tppkit[{extra}]" in done.stderr
    assert "Traceback" not in done.stderr
