from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from tppkit import __version__
from tppkit.cli.main import _COMMANDS, main
from tppkit.cli.output import fact_lines

pytestmark = pytest.mark.slow

TESTCERTS = Path(__file__).parents[2] / "testcerts"


def test_help_lists_every_command_group(tppkit):
    result = tppkit("--help")
    assert result.exit_code == 0
    assert all(name in result.stdout for name in _COMMANDS)


def test_version_is_the_package_version(tppkit):
    assert __version__ in tppkit("--version").stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ("cert", "check", TESTCERTS / "qwac.pem", "--as", "qwac", "--at", "nonsense"),
        ("cert", "check", TESTCERTS / "qwac.pem"),
        ("cert", "show", "--nonsense"),
        ("nonsense",),
    ],
    ids=["an invalid time", "an option missing", "an unknown option", "an unknown command"],
)
def test_wrong_usage_with_json_is_an_object_too(tppkit, arguments):
    result = tppkit(*arguments, "--json")
    assert (result.exit_code, result.json["error"]["code"]) == (2, "usage.wrong")
    assert result.json["error"]["message"] in " ".join(result.stderr.split())
    assert tppkit(*arguments).stdout == ""


@pytest.mark.parametrize(("variable", "color"), [("", True), ("1", False)])
def test_a_verdict_is_coloured_unless_no_color_is_set(monkeypatch, variable, color):
    monkeypatch.setenv("NO_COLOR", variable)
    certificate = str(TESTCERTS / "qwac.pem")
    outputs = [
        CliRunner().invoke(main, ["cert", "check", certificate, "--as", use, "--at", "2026-06-01"], color=True).stdout
        for use in ("qwac", "qseal")
    ]
    assert [text.startswith(start) for text, start in zip(outputs, ("\x1b[32m", "\x1b[31m"), strict=True)] == [
        color
    ] * 2


@pytest.mark.parametrize(("variable", "color"), [("", True), ("1", False)])
def test_a_failure_on_a_terminal_is_coloured_unless_no_color_is_set(variable, color):
    screen, terminal = os.openpty()
    command = [sys.executable, "-m", "tppkit", "cert", "pair", "absent", "absent"]
    subprocess.run(command, stderr=terminal, env={**os.environ, "NO_COLOR": variable}, timeout=60, check=False)
    os.close(terminal)
    with open(screen, "rb", buffering=0) as shown:
        assert (b"\x1b[31merror:" in shown.read(4096)) is color


def test_options_are_read_from_the_environment(tppkit, monkeypatch):
    monkeypatch.setenv("TPPKIT_CERT_CHECK_AS", "qwac")
    monkeypatch.setenv("TPPKIT_CERT_CHECK_AT", "2026-06-01")
    result = tppkit("cert", "check", TESTCERTS / "qwac.pem", "--json")
    assert (result.json["as"], result.json["at"]) == ("qwac", "2026-06-01T00:00:00Z")


def test_help_imports_no_package_of_the_toolkit():
    code = (
        "import sys\nfrom tppkit.cli.main import main\n"
        "try: main(['--help'])\nexcept SystemExit: pass\n"
        "sys.stderr.write(' '.join(m for m in sys.modules if m.startswith(('tppkit.', 'cryptography', 'asn1crypto', 'httpx'))))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert set(done.stderr.split()) == {"tppkit.cli", "tppkit.cli.examples", "tppkit.cli.main"}


def test_a_failure_that_ends_a_command_is_an_object_too(tppkit):
    certificate = TESTCERTS / "qwac.pem"
    result = tppkit("cert", "check", certificate, "--as", "qwac", "--trust", "absent", "--json")
    assert (result.exit_code, result.json["error"]["code"]) == (2, "trust.unreadable")
    assert "trust.unreadable" in result.stderr


def test_a_closed_output_does_not_end_with_the_exit_code_of_a_verdict():
    program = Path(sys.executable).with_name("tppkit")
    command = (
        f"{program} cert show {TESTCERTS}/*.pem {TESTCERTS}/*.pem {TESTCERTS}/*.pem | true; exit ${{PIPESTATUS[0]}}"
    )
    done = subprocess.run(["bash", "-c", command], check=False, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.parametrize(
    "arguments",
    [("cert", "show", "--nonsense"), ("cert", "check", TESTCERTS / "qwac.pem", "--as", "qwac", "--trust", "absent")],
    ids=["wrong usage", "a failure"],
)
def test_a_failure_printed_to_a_closed_pipe_does_not_end_with_the_exit_code_of_a_verdict(arguments):
    reading, writing = os.pipe()
    os.close(reading)
    program = Path(sys.executable).with_name("tppkit")
    try:
        done = subprocess.run(
            [program, *arguments, "--json"], check=False, stdout=writing, stderr=subprocess.PIPE, text=True, timeout=60
        )
    finally:
        os.close(writing)
    assert (done.returncode, "Traceback" in done.stderr) == (141, False)


@pytest.mark.parametrize("option", ["--json", "--help"])
def test_a_full_disk_is_one_line(option):
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [Path(sys.executable).with_name("tppkit"), "cert", "show", TESTCERTS / "qwac.pem", option],
            check=False, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60,
        )  # fmt: skip
    first, *hints = done.stderr.splitlines()
    assert (done.returncode, first) == (3, "error: the output: No space left on device [file.unwritable]")
    assert len(hints) == 1


def test_a_failure_that_stdout_cannot_take_is_on_stderr():
    program, absent = Path(sys.executable).with_name("tppkit"), ("--as", "qwac", "--trust", "absent", "--json")
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [program, "cert", "check", TESTCERTS / "qwac.pem", *absent],
            check=False, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60,
        )  # fmt: skip
    assert (done.returncode, "[trust.unreadable]" in done.stderr, "Traceback" in done.stderr) == (3, True, False)


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-"])
@pytest.mark.parametrize("option", ["", "--json"])
def test_with_closed_streams_the_verdict_is_the_exit_code(closed, option):
    program = Path(sys.executable).with_name("tppkit")
    command = f"{program} cert show {option} {TESTCERTS}/qwac.pem {closed}"
    done = subprocess.run(["bash", "-c", command], check=False, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
@pytest.mark.parametrize("option", [[], ["--json"]], ids=["text", "JSON"])
def test_output_is_whole_in_every_encoding(tmp_path, encoding, option):
    name = "ž€.pem".encode() + b"\xff"  # a euro sign is not in Latin-1, the last byte not UTF-8
    shutil.copy(TESTCERTS / "qwac.pem", os.fsencode(tmp_path) + b"/" + name)
    done = subprocess.run(
        [Path(sys.executable).with_name("tppkit"), "cert", "show", *option, name],
        check=False, capture_output=True, cwd=tmp_path, env={**os.environ, "PYTHONIOENCODING": encoding}, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"qc_pds" in done.stdout


def test_an_argument_after_two_hyphens_is_not_an_option(tppkit):
    assert tppkit("cert", "check", "--as", "nonsense", "--", "--json").stdout == ""
    assert tppkit("cert", "check", "--as", "qwac", "--trust", "absent", "--", "--json").stdout == ""


def test_a_space_at_the_end_of_a_value_is_seen():
    assert list(fact_lines([("reference", "LB000000 "), ("name", "a b")])) == [
        '  reference  "LB000000 "',
        "  name       a b",
    ]


_IN_A_FINALIZER = """
import signal, sys, time
from tppkit.cli.main import _end_on_signals

class Lock:
    def __del__(self):
        signal.raise_signal({number})

signal.signal({number}, signal.SIG_DFL)  # the tests may run where it is ignored
_end_on_signals()
Lock()
time.sleep(90)
"""


@pytest.mark.parametrize(("number", "code"), [("signal.SIGTERM", 143), ("signal.SIGHUP", 129)])
def test_a_signal_in_a_finalizer_ends_the_program_without_a_traceback(number, code):
    done = subprocess.run(
        [sys.executable, "-c", _IN_A_FINALIZER.format(number=number)], capture_output=True, text=True, timeout=60, check=False
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (code, "", "")
