"""`tppkit`: the root command. Groups are imported when they are called, so `--help` is fast.

Exit: 0 holds, 1 does not hold, 2 wrong usage, 3 input cannot be read; `audit verify` has its own codes.
"""

from __future__ import annotations

import os
import signal
import sys
from importlib import import_module
from io import TextIOWrapper
from types import FrameType
from typing import NoReturn, cast

import click
from click.shell_completion import shell_complete

from tppkit import __version__
from tppkit.cli.examples import add_epilogs, epilog

# Name of a command, and of its module: one line of help.
_COMMANDS = {
    "audit": "Re-verify retained signatures.",
    "callback": "Sign, verify, explain, send and receive callbacks, and test a receiver.",
    "cert": "Read, check and compare eIDAS certificates.",
    "demo": "Run the main task end to end, on this machine.",
    "doctor": "Check what will break, and when.",
    "inbox": "List, release, discard, purge and handle stored callbacks and webhooks.",
    "pan": "Search files for card numbers.",
    "pki": "Make a test PKI and its certificates.",
    "qr": "Make and read login codes, payment codes and scan links.",
    "sandbox": "Run a bank and a payment gateway to develop against.",
    "seal": "Seal requests, verify seals, explain failures.",
    "trust": "Look up the status of certificates in trusted lists.",
}


_COMPLETE = "_TPPKIT_COMPLETE"  # click's name: `bash_source` prints the script, `bash_complete` completes


class _LazyGroup(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        return add_epilogs(getattr(import_module(f"tppkit.cli.{cmd_name}"), cmd_name), cmd_name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(sorted(_COMMANDS.items()))


@click.group(
    cls=_LazyGroup,
    epilog=epilog(""),
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="tppkit")
@click.pass_context
def main(context: click.Context) -> None:
    """The trust layer of a PSD2 third-party provider: certificates, seals, mutual TLS, evidence, and a bank to test against.

    Results go to stdout, messages to stderr. Every command takes --json. A variable TPPKIT_COMMAND_OPTION in the environment sets an
    option other than --json, for example TPPKIT_SEAL_VERIFY_TRUST. Colours are used on a terminal unless NO_COLOR is set.
    """
    if os.environ.get("NO_COLOR"):
        context.color = False


def run() -> NoReturn:
    """Entry point: prints every failure as one line, with --json also as an object on stdout, and sets the exit code."""
    _prepare_streams()
    _end_on_signals()
    try:
        if shell := os.environ.get(_COMPLETE):
            sys.exit(shell_complete(main, {}, "tppkit", _COMPLETE, shell))
        with main.make_context("tppkit", sys.argv[1:]) as context:
            result = main.invoke(context)
        sys.stdout.flush()
    except click.exceptions.Exit as e:
        sys.exit(e.exit_code)
    except (click.Abort, KeyboardInterrupt):
        sys.exit(130)
    except BrokenPipeError:
        sys.exit(_give_up_stdout(141))
    except Exception as e:  # noqa: BLE001  # the last resort
        sys.exit(_report(e))
    sys.exit(result if isinstance(result, int) else 0)


def _report(cause: Exception) -> int:
    """Print the failure that ended the command; return the exit code."""
    from tppkit.cli.output import UNREADABLE, as_tppkit_error, exit_code_of, failure, print_json

    error, is_usage = as_tppkit_error(cause), isinstance(cause, click.ClickException)
    try:
        if isinstance(cause, click.ClickException):
            cause.show()
        exit_code = cause.exit_code if isinstance(cause, click.UsageError) else exit_code_of(error)
        result = failure(error, exit_code, on_stderr=not is_usage)
        if _wants_json(sys.argv[1:]):
            print_json(result.value)
        sys.stdout.flush()
    except BrokenPipeError:
        return _give_up_stdout(141)
    except OSError:  # a full disk: the failure is on stderr already
        return _give_up_stdout(UNREADABLE)
    return result.exit_code


def _wants_json(arguments: list[str]) -> bool:
    """Whether --json is among the options before `--`; the failure may have come before click parsed them."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    return "--json" in arguments[:end]


def _give_up_stdout(exit_code: int) -> int:
    # Python flushes stdout at exit, which would fail again.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return exit_code


def _end_on_signals() -> None:
    """End on SIGTERM and SIGHUP as on Ctrl-C, so that incomplete files are removed; keep signals ignored that the caller ignores.

    Commands that serve install their own handlers.
    """
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _end)
    sys.unraisablehook = _end_later


def _end_later(lost: sys.UnraisableHookArgs) -> None:
    """End a moment later if a signal came in a finalizer, for example of an import lock, in which Python drops exceptions."""
    if not isinstance(lost.exc_value, SystemExit | KeyboardInterrupt):
        sys.__unraisablehook__(lost)
        return
    code = lost.exc_value.code if isinstance(lost.exc_value, SystemExit) else 130
    signal.signal(signal.SIGALRM, lambda *_: sys.exit(code))
    signal.setitimer(signal.ITIMER_REAL, 0.01)


def _end(number: int, frame: FrameType | None) -> NoReturn:
    sys.exit(128 + number)


def _prepare_streams() -> None:
    """Open stdout and stderr if the caller closed them (`>&-`), because Python sets them to None.

    stdout escapes what its encoding lacks, as stderr does.
    """
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115  # open until the process ends
    cast("TextIOWrapper", sys.stdout).reconfigure(errors="backslashreplace")


if __name__ == "__main__":
    run()
