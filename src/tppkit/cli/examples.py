"""The end of every `--help`: examples and exit codes."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import click

_CHECKS = "0 holds, 1 does not hold, 2 wrong usage or trust material cannot be read, 3 input cannot be read."
_MAKES = "0 done, 2 wrong usage or output cannot be written, 3 input cannot be read."
_CHANGES_PKI = "0 done, 2 wrong usage, no test PKI in the folder or output cannot be written, 3 input cannot be read."
_SERVES = (
    "0 stopped by Ctrl-C or SIGTERM, 2 wrong usage, port taken, no test PKI in the folder or output cannot be written,"
    " 3 input cannot be read."
)
_AUDITS = (
    "0 all passed and complete, 1 any failed, 2 wrong usage, 3 none failed but some indeterminate, 4 log or sequence inconsistent,"
    " 5 archive cannot be read, 6 interrupted, 7 trust material missing."
)
_EMPTIES = "0 no entry failed, 1 there are failed entries, 2 wrong usage, 3 the database cannot be read."
_CHANGES_INBOX = "0 done, 1 an entry with this key is not failed, 2 wrong usage, 3 the database cannot be read."
_GROUPS = "0 done, 2 wrong usage; the help of each command lists its own."
_PAYMENT_URL = "https://bank.example/psd2/v1/payments/sepa-credit-transfers"

# Command: (examples, exit codes). The help of a group shows the first example of each of its commands.
_ROWS: Mapping[str, tuple[tuple[str, ...], str]] = MappingProxyType(
    {
        "audit verify": (
            ("tppkit audit verify archive --trust certs", "tppkit audit verify archive --trust certs --json"), _AUDITS,
        ),
        "callback verify": (
            ("tppkit callback verify callback.http --address https://tpp.example/back/ --public-key certs/callback-test.pub",),
            _CHECKS,
        ),
        "callback attack": (
            (
                "tppkit callback attack http://localhost:8000/back --key certs/callback-test.key",
                "tppkit callback attack http://localhost:8000 --key certs/callback-test.key --signed-url https://tpp.example/back",
            ),
            "0 every answer was as expected, 1 one was not, 2 wrong usage, 3 the receiver cannot be reached.",
        ),
        "callback explain": (
            ("tppkit callback explain callback.http --address https://tpp.example/back/ --public-key certs/callback-test.pub",),
            "0 the callback holds, 1 it does not, and the cause is printed, 2 wrong usage, 3 input cannot be read.",
        ),
        "callback listen": (
            (
                "tppkit callback listen --public-key certs/callback-test.pub --base-url https://tpp.example/back",
                "tppkit callback listen --public-key certs/callback-test.pub --base-url https://tpp.example/back"
                " --forward http://localhost:8000",
            ),
            "0 stopped by Ctrl-C or SIGTERM, 2 wrong usage, port taken or output cannot be written, 3 input cannot be read.",
        ),
        "callback replay": (
            ("tppkit callback replay 1 --to http://localhost:8000", "tppkit callback replay callback.http --to http://localhost:8000"),
            "0 answered with 2xx, 1 answered otherwise, 2 wrong usage, 3 input cannot be read or there is no answer.",
        ),
        "callback send": (
            (
                "tppkit callback send --url http://localhost:8000/back/ --key certs/callback-test.key --kind access",
                "tppkit callback send --url https://localhost:8443/back/ --key certs/callback-test.key --kind access --ca certs/root.pem",
            ),
            "0 answered with 2xx, 1 answered otherwise, 2 wrong usage, 3 input cannot be read or there is no answer.",
        ),
        "callback sign": (
            ("tppkit callback sign --key certs/callback-test.key --url https://tpp.example/back/ --body payment.json",), _MAKES,
        ),
        "cert show": (
            ("tppkit cert show certs/qwac.pem", "tppkit cert show --json certs/*.pem"),
            "0 all were read, whatever the findings, 2 wrong usage, 3 one cannot be read.",
        ),
        "cert check": (
            (
                "tppkit cert check certs/qwac.pem --as qwac --trust certs",
                "tppkit cert check certs/qseal.pem --as qseal --trust certs --crl certs/issuing-ca-qseal.crl",
            ),
            _CHECKS,
        ),
        "cert pair": (("tppkit cert pair certs/qwac.pem certs/qseal.pem",), _CHECKS),
        "cert renewal": (("tppkit cert renewal certs/qwac.pem certs/other-qwac.pem",), _CHECKS),
        "demo": (
            ("tppkit demo", "tppkit demo --dir kept --json"),
            "0 every step as expected, 1 a step was not, 2 wrong usage or output cannot be written.",
        ),
        "inbox failed": (("tppkit inbox failed --database sqlite:///tpp.sqlite",), _EMPTIES),
        "inbox release": (("tppkit inbox release --database sqlite:///tpp.sqlite KEY",), _CHANGES_INBOX),
        "inbox discard": (("tppkit inbox discard --database sqlite:///tpp.sqlite KEY",), _CHANGES_INBOX),
        "inbox purge": (
            ("tppkit inbox purge --database sqlite:///tpp.sqlite",), "0 done, 2 wrong usage, 3 the database cannot be read.",
        ),
        "inbox work": (
            (
                "tppkit inbox work --database sqlite:///tpp.sqlite --handler payments:work",
                "tppkit inbox work --database sqlite:///tpp.sqlite --handler payments:work --forever --interval 5",
            ),
            "0 done, or ended by a signal with --forever, 1 an entry is stored as failed, 2 wrong usage, 3 the database cannot be read.",
        ),
        "pki create": (
            ("tppkit pki create my-pki", "tppkit pki create their-pki --org-id PSDDE-BAFIN-123456 --roles PSP_PI,PSP_AI --faults"), _MAKES,
        ),
        "pki csr": (
            (
                "tppkit pki csr my.csr --org-id PSDDE-BAFIN-123456 --name 'Zahlgut GmbH'",
                "tppkit pki csr seal.csr --kind qseal --key certs/qseal.key",
            ),
            "0 done, 2 wrong usage or output cannot be written, 3 input cannot be read.",
        ),
        "pki faults": (("tppkit pki faults", "tppkit pki faults --json"), _MAKES),
        "pki issue": (("tppkit pki issue qwac certs --roles PSP_AI", "tppkit pki issue csr certs --csr my.csr"), _CHANGES_PKI),
        "pki renew": (("tppkit pki renew certs",), _CHANGES_PKI),
        "pki revoke": (
            (
                "tppkit pki revoke certs/other-qseal.pem --reason keyCompromise",
                "tppkit pki revoke certs/qwac.pem --reason certificateHold",
                "tppkit pki revoke certs/qwac.pem --lift",
            ),
            _CHANGES_PKI,
        ),
        "pki serve": (("tppkit pki serve certs --port 8448",), _SERVES),
        "qr login": (("tppkit qr login https://tpp.example/login/1a2b --png login.png",), _MAKES),
        "qr payment": (
            ("tppkit qr payment --acc LT121000011101001000 --name Bookshop --ccc EUR --amt 12.50 --svg payment.svg",), _MAKES,
        ),
        "qr read": (
            ("tppkit qr read login.png", "tppkit qr read 'TX:LT121000011101001000:Bookshop:EUR:12.50::'"),
            "0 read, 2 wrong usage, 3 input cannot be read or is not a code.",
        ),
        "pan scan": (
            ("tppkit pan scan logs --any", "tppkit pan scan backup.tar.gz --cards cards.txt --json"),
            "0 none found, 1 found, 2 wrong usage, 3 something could not be searched.",
        ),
        "qr scan": (("tppkit qr scan https://service.example 'LOGIN:tpp.example/login/1a2b'",), _MAKES),
        "sandbox up": (("tppkit sandbox up", "tppkit sandbox up --port 9443 --pki certs --ready-file ready.json"), _SERVES),
        "sandbox clock advance": (
            ("tppkit sandbox clock advance 5m", "tppkit sandbox clock advance 2d --control http://localhost:9446"),
            "0 done, 2 wrong usage, 3 the sandbox did not answer.",
        ),
        "sandbox clock next": (("tppkit sandbox clock next",), "0 done, 2 wrong usage, 3 the sandbox did not answer."),
        "seal sign": (
            (
                f"tppkit seal sign --key certs/qseal.key --cert certs/qseal.pem --method POST --url {_PAYMENT_URL} --body payment.json",
            ),
            _MAKES,
        ),
        "seal verify": (
            ("tppkit seal verify request.http --trust certs --qwac certs/qwac.pem", "tppkit seal verify archive --trust certs --json"),
            _CHECKS,
        ),
        "seal diagnose": (
            ("tppkit seal diagnose request.http", "tppkit seal diagnose request.http --cert certs/qseal.pem --qwac certs/qwac.pem"),
            "0 explained, or it verifies, 1 not explained, 2 wrong usage, 3 input cannot be read.",
        ),
        "trust status": (("tppkit trust status certs/qseal.pem --trusted-lists certs/trusted-lists",), _CHECKS),
        "trust fetch": (
            ("tppkit trust fetch trusted-lists", "tppkit trust fetch trusted-lists --territory LT --territory DE"),
            "0 holds, 1 does not hold, 2 wrong usage or output cannot be written, 3 a list cannot be fetched or read.",
        ),
        "trust lists": (("tppkit trust lists certs/trusted-lists",), _CHECKS),
    }
)  # fmt: skip


def epilog(path: str) -> str:
    """Return the end of a command's help, in click's markup; `path` is the command without `tppkit`, empty for the root."""
    examples, exits = _ROWS.get(path) or (_first_of_each(path), _GROUPS)
    lines = "".join(f"\n  {example}" for example in examples)
    return f"\b\nExamples:{lines}\n\nExit: {exits}"


def _first_of_each(group: str) -> tuple[str, ...]:
    depth = len(group.split())
    first: dict[str, str] = {}
    for path, (examples, _) in _ROWS.items():
        names = path.split()
        if names[:depth] == group.split():
            first.setdefault(names[depth], examples[0])
    return tuple(first.values())


def add_epilogs(command: click.Command, path: str) -> click.Command:
    """Add the end of the help, and the environment variable of each option, to a command and its subcommands."""
    command.epilog = epilog(path)
    for parameter in command.params:
        if (
            isinstance(parameter, click.Option) and parameter.name != "as_json"
        ):  # failures look for --json in the arguments
            name = max(parameter.opts, key=len).removeprefix("--")
            parameter.envvar = f"TPPKIT_{path}_{name}".upper().replace(" ", "_").replace("-", "_")
    if isinstance(command, click.Group):
        for name, below in command.commands.items():
            add_epilogs(below, f"{path} {name}")
    return command
