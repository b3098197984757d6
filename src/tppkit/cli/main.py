"""`tppkit`: the root command. Groups are imported when they are called, so that `--help` stays quick.

Exit: 0 holds, 1 does not hold, 2 wrong usage, 3 input cannot be read; `audit verify` has codes of its own.
"""

from __future__ import annotations

import os
import signal
import sys
from importlib import import_module
from types import FrameType
from typing import NoReturn

import click
from click.shell_completion import shell_complete

from tppkit import __version__
from tppkit.cli.examples import add_epilogs, epilog

# name: (module, one line of help); each module has a click command of the same name.
_COMMANDS = {
    "audit": ("tppkit.cli.audit", "Re-verify retained signatures."),
    "callback": (
        "tppkit.cli.callback",
        "Sign, verify, explain, receive and replay callbacks, and attack one's own receiver.",
    ),
    "cert": ("tppkit.cli.cert", "Read, check and compare eIDAS certificates."),
    "demo": ("tppkit.cli.demo", "The main job end to end, on this machine."),
    "inbox": ("tppkit.cli.inbox", "List, release, discard, purge and work stored callbacks and webhooks."),
    "pki": ("tppkit.cli.pki", "Make test certificates."),
    "qr": ("tppkit.cli.qr", "Make and read login codes, payment codes and scan links."),
    "sandbox": ("tppkit.cli.sandbox", "The bank to develop against."),
    "seal": ("tppkit.cli.seal", "Seal requests, verify seals, explain failures."),
    "trust": ("tppkit.cli.trust", "Ask the trusted lists."),
}


_COMPLETE = "_TPPKIT_COMPLETE"  # as click names it: `bash_source` prints the script, `bash_complete` completes


class _LazyGroup(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        return add_epilogs(getattr(import_module(_COMMANDS[cmd_name][0]), cmd_name), cmd_name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in sorted(_COMMANDS.items())])


@click.group(
    cls=_LazyGroup,
    epilog=epilog(""),
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="tppkit")
def main() -> None:
    """The trust layer of a PSD2 third-party provider: certificates, seals, mutual TLS, evidence, and a bank to test against.

    Results go to stdout, messages to stderr. Every command takes --json.
    """


def run() -> NoReturn:
    """Entry point: every failure becomes one line and an exit code, never a traceback; with --json an object on stdout too."""
    _open_what_is_closed()
    _end_in_order()
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
    except Exception as e:  # noqa: BLE001  # the last resort: told as one line
        sys.exit(_report(e))
    sys.exit(result if isinstance(result, int) else 0)


def _report(failure: Exception) -> int:
    """Tell what ended the command, in the one place that does; the exit code."""
    from tppkit.cli.output import UNREADABLE, exit_code_of, say_failure, told

    error = told(failure)
    try:
        if isinstance(failure, click.ClickException):
            failure.show()  # with the usage and where help is
        say_failure(error, as_json=_wants_json(sys.argv[1:]), told_already=isinstance(failure, click.ClickException))
        sys.stdout.flush()
    except BrokenPipeError:
        return _give_up_stdout(141)
    except OSError:  # a full disk: stderr has the failure already, where it can be written
        return _give_up_stdout(UNREADABLE)
    return exit_code_of(error)


def _wants_json(arguments: list[str]) -> bool:
    """Whether --json is among the options, where they cannot be or have not been read; behind `--` there are none."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    return "--json" in arguments[:end]


def _give_up_stdout(exit_code: int) -> int:
    # What is still buffered must not fail once more at the end.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return exit_code


def _end_in_order() -> None:
    """Let SIGTERM and SIGHUP end the program as Ctrl-C does, so that nothing half-written stays; not where the caller ignores them.

    Commands that serve have handlers of their own.
    """
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _end)


def _end(number: int, frame: FrameType | None) -> NoReturn:
    sys.exit(128 + number)


def _open_what_is_closed() -> None:
    """Let stdout and stderr lead nowhere where the caller closed them (`>&-`): Python has None in their place then."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115  # open until the end


if __name__ == "__main__":
    run()
