"""Help: examples that run, exit codes, completion, and suggestions for near misses."""

from __future__ import annotations

import gzip
import os
import shlex
import socket
import subprocess
import sys
from collections.abc import Iterator
from glob import glob
from pathlib import Path

import click
import pytest

from programs import TPPKIT
from tppkit.cli.main import main, run

pytestmark = pytest.mark.slow


def commands(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[str, click.Command]]:
    yield " ".join(path), command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from commands(below, (*path, name))


COMMANDS = dict(commands(main))


def help_of(path: str) -> str:
    return COMMANDS[path].get_help(click.Context(COMMANDS[path], info_name=f"tppkit {path}".strip()))


def examples(path: str) -> list[str]:
    lines = help_of(path).partition("Examples:\n")[2].partition("Exit:")[0].splitlines()
    return [line.strip() for line in lines if line.strip()]


# What needs a server, a network or an archive is parsed only.
NOT_RUN = {
    "audit verify",
    "callback attack",
    "callback listen",
    "callback replay",
    "callback send",
    "demo",
    "pki serve",
    "sandbox up",
    "trust fetch",
}
NOT_RUN |= {
    *(f"sandbox clock {name}" for name in ("show", "freeze", "advance", "next")),
    "sandbox reset",
    "sandbox report",
}
NOT_RUN |= {*(f"inbox {name}" for name in ("failed", "release", "discard", "purge", "work"))}


@pytest.fixture(scope="module")
def example_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files that the examples name."""
    folder = tmp_path_factory.mktemp("examples")
    (folder / "archive").mkdir()
    (folder / "payment.json").write_bytes(b'{"transaction_id":1}')
    (folder / "logs").mkdir()
    (folder / "logs" / "shop.log").write_text("order 7: approved")
    (folder / "backup.tar.gz").write_bytes(gzip.compress(b"order 7: approved"))
    (folder / "cards.txt").write_text("4111111111111111\n0739\n")
    (folder / "password").write_text("test\n")

    def run(line: str) -> str:
        done = subprocess.run([TPPKIT, *shlex.split(line)[1:]], cwd=folder, capture_output=True, timeout=60, check=True)
        return done.stdout.decode()

    def write(name: str, target: str, host: str, headers: str) -> None:
        lines = [f"POST {target} HTTP/1.1", f"Host: {host}", "Content-Type: application/json", *headers.splitlines()]
        head = "\r\n".join([*lines, "Content-Length: 20"]).encode()
        (folder / name).write_bytes(head + b"\r\n\r\n" + (folder / "payment.json").read_bytes())

    run("tppkit pki create certs")
    (folder / "our-bank.toml").write_text(run("tppkit sandbox persona berlin-group"))
    write("request.http", "/psd2/v1/payments/sepa-credit-transfers", "bank.example", run(examples("seal sign")[0]))
    write("callback.http", "/back/", "tpp.example", run(examples("callback sign")[0]))
    return folder


@pytest.mark.parametrize("path", COMMANDS)
def test_every_help_has_examples_that_parse_and_the_exit_codes(path, example_folder, monkeypatch):
    monkeypatch.chdir(example_folder)
    assert "\n  Exit: 0 " in help_of(path)
    assert examples(path)
    for line in examples(path):
        program, *words = shlex.split(line)
        assert program == "tppkit"
        assert line.startswith(f"tppkit {path}".strip())
        command: click.Command = main
        context = click.Context(main)
        while isinstance(command, click.Group):
            name, found, words = command.resolve_command(context, words)
            assert found is not None
            command = found
        command.make_context(name, list(words))


def test_each_option_has_a_variable_of_its_own():
    options = [one for command in COMMANDS.values() for one in command.params if isinstance(one, click.Option)]
    names = [str(option.envvar) for option in options if option.envvar]
    others = {"TPPKIT_ANCHORS", "TPPKIT_NO_SKIPS", "TPPKIT_SCREENSHOTS", "TPPKIT_TRACEBACK", "TPPKIT_VAULT_KEY"}
    assert len({*names, *others}) == len(names) + len(others)


@pytest.fixture(scope="module")
def taken_port() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening.getsockname()[1]


@pytest.mark.parametrize(
    ("line", "exit_code", "stated"),
    [
        ("cert check certs/qwac.pem --as qwac --trust absent", 2, "trust material cannot be read"),
        ("seal verify request.http --trust absent", 2, "trust material cannot be read"),
        ("trust lists certs", 2, "trust material cannot be read"),
        ("cert check absent --as qwac --trust certs", 3, "input cannot be read"),
        ("callback verify callback.http --address https://tpp.example/back/ --public-key absent", 3, "input cannot be read"),
        ("qr login https://tpp.example/login/1a2b --png /proc/x.png", 2, "output cannot be written"),
        ("pki create /proc/x", 2, "output cannot be written"),
        ("pki create certs", 2, "output cannot be written"),
        ("pki csr /proc/x.csr", 2, "output cannot be written"),
        ("pki csr x.csr --key absent", 3, "input cannot be read"),
        ("seal sign --key absent --cert certs/qseal.pem --method POST --url https://bank.example/x", 3, "input cannot be read"),
        ("pki issue qwac absent", 2, "no test PKI in the folder"),
        ("pki renew absent", 2, "no test PKI in the folder"),
        ("pki revoke certs/absent.pem", 3, "input cannot be read"),
        ("pki issue csr certs --csr absent", 3, "input cannot be read"),
        ("pki serve certs --port {taken}", 2, "port taken"),
        ("pki serve absent --port 0", 2, "no test PKI in the folder"),
        ("sandbox up --port {taken}", 2, "port taken"),
        ("sandbox up --port 0 --dir /proc/x", 2, "output cannot be written"),
        ("callback listen --base-url https://tpp.example/back --public-key certs/callback-test.pub --port {taken}", 2, "port taken"),
        ("callback listen --base-url https://tpp.example/back --public-key absent", 3, "input cannot be read"),
        ("demo --dir /proc/x", 2, "output cannot be written"),
        ("trust fetch /proc/x", 2, "output cannot be written"),
        ("trust fetch lists --url http://127.0.0.1:1/ --allow-private", 3, "cannot be fetched"),
    ],
)  # fmt: skip
def test_a_failure_ends_with_the_exit_code_that_the_help_states_for_it(
    line, exit_code, stated, taken_port, example_folder, monkeypatch
):
    monkeypatch.chdir(example_folder)
    monkeypatch.setattr(sys, "argv", ["tppkit", *shlex.split(line.format(taken=taken_port))])
    with pytest.raises(SystemExit) as done:
        run()
    assert done.value.code == exit_code
    path = max((path for path in COMMANDS if f"{line} ".startswith(f"{path} ")), key=len)
    codes = " ".join(help_of(path).rpartition("Exit: ")[2].split())
    of_code = codes.partition(f" {exit_code} ")[2].partition(f", {exit_code + 1} ")[0]
    assert stated in of_code


def test_every_example_that_needs_no_server_runs(example_folder, monkeypatch, capsys):
    monkeypatch.chdir(example_folder)
    ended = {}
    for path in (
        path for path, command in COMMANDS.items() if path not in NOT_RUN and not isinstance(command, click.Group)
    ):
        for line in (line for line in examples(path) if " archive" not in line and " --bank " not in line):
            monkeypatch.setattr(sys, "argv", [word for part in shlex.split(line) for word in glob(part) or [part]])
            with pytest.raises(SystemExit) as done:
                run()
            ended[line] = done.value.code
            said = capsys.readouterr()
            assert said.out, said.err
    assert {line: code for line, code in ended.items() if code} == {examples("cert renewal")[0]: 1}
    assert len(ended) > 25


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_completion_script_is_printed(shell):
    done = subprocess.run(
        [TPPKIT], env={**os.environ, "_TPPKIT_COMPLETE": f"{shell}_source"}, capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert f"_TPPKIT_COMPLETE={shell}_complete" in done.stdout


def test_bash_completes_commands_and_options():
    script = (
        'eval "$(_TPPKIT_COMPLETE=bash_source tppkit)"; COMP_WORDS=(tppkit {0}); COMP_CWORD={1}; '
        '_tppkit_completion tppkit; echo "${{COMPREPLY[@]}}"'
    )
    environment = {**os.environ, "PATH": f"{TPPKIT.parent}:{os.environ['PATH']}"}
    for words, expected in (("cert sh", "show"), ("cert check --a", "--as --at"), ("dem", "demo")):
        line = script.format(words, len(words.split()))
        done = subprocess.run(["bash", "-c", line], env=environment, capture_output=True, text=True, timeout=60)
        assert (done.stdout.split(), done.stderr) == (expected.split(), "")


@pytest.mark.parametrize(
    ("option", "given", "suggested"),
    [
        ("--roles", "PISP", "for PISP give PSP_PI"), ("--roles", "aisp,PSP_PI", "for aisp give PSP_AI"),
        ("--roles", "CBPII,ASPSP", "for CBPII give PSP_IC, for ASPSP give PSP_AS"), ("--roles", "merchant", None),
        ("--roles", "PSP_PI,PSP_PI", None), ("--profile", "psd2v1", "did you mean psd2-v1?"),
        ("--profile", "PSD2_V1", "did you mean psd2-v1?"), ("--profile", "xyz", None),
        ("--profile", "mine.toml", "did you mean psd2-v1?"),
    ],
)  # fmt: skip
def test_an_unknown_role_or_profile_gets_a_suggestion(tppkit, tmp_path, option, given, suggested):
    (tmp_path / "mine.toml").write_text('name = "mine"\nbased_on = "psd2v1"\n')
    command = ("pki", "create", "certs") if option == "--roles" else ("seal", "verify", "request.http", "--trust", ".")
    done = tppkit(*command, option, given, "--json")
    message = done.json["error"]["message"]
    assert (done.exit_code, option == "--roles" or "psd2-v1" in message) == (3 if ".toml" in given else 2, True)
    assert message.rpartition("; ")[2 if suggested else 0] == (suggested or "")
