"""The exception tree and findings."""

from __future__ import annotations

import ast
import inspect
import pickle
import re
from pathlib import Path
from types import MappingProxyType

import pytest

import tppkit
from tppkit import errors
from tppkit.codes import CODES
from tppkit.errors import (
    Finding,
    FormatError,
    OutcomeUnknown,
    RequestRefused,
    Severity,
    TppkitError,
    VerificationError,
)

CLASSES = {name: kind for name, kind in vars(errors).items() if inspect.isclass(kind) and issubclass(kind, TppkitError)}
SOURCE = Path(tppkit.__file__).parent


def drawn_tree() -> dict[str, str]:
    """Each class name of the drawing in the module's docstring, with the name of its base."""
    parents: dict[str, str] = {}
    path = [(0, "TppkitError")]
    for line in (errors.__doc__ or "").splitlines():
        branch = re.match(r"([ │]*)[├└]── (\w+)", line)
        if branch:
            depth, name = len(branch.group(1)) + 1, branch.group(2)
            while path[-1][0] >= depth:
                path.pop()
            parents[name] = path[-1][1]
            path.append((depth, name))
    return parents


def test_the_docstring_draws_the_class_tree():
    assert drawn_tree() == {
        name: kind.__bases__[0].__name__ for name, kind in CLASSES.items() if kind is not TppkitError
    }


def test_exceptions_outside_are_those_of_one_package():
    added = [
        f"{file.relative_to(SOURCE)}: {node.name}"
        for file in sorted(SOURCE.rglob("*.py"))
        if file.name != "errors.py" or file.parent != SOURCE
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.ClassDef) and any(isinstance(b, ast.Name) and b.id in CLASSES for b in node.bases)
    ]
    assert added == [
        "callbacks/signature.py: CallbackRejected",
        "cli/output.py: UnreadableFile",  # the name of the file, which only the command line prints
        "client/gateway_calls.py: OrderOutcomeUnknown",
        "client/legacy.py: Unauthorized",
        "client/legacy.py: AccountUnknown",
        "client/tls_context.py: _NoEffect",  # also a NotImplementedError, for libraries that try settings
        "inbox/entries.py: InboxError",
    ]


@pytest.mark.parametrize("kind", [k for k in CLASSES.values() if not issubclass(k, OutcomeUnknown | RequestRefused)])
def test_the_text_ends_with_the_code(kind):
    error = kind("digest.mismatch", "the body was changed", clause="A.5")
    assert str(error) == "the body was changed [digest.mismatch]"
    assert (error.code, error.message, error.clause) == ("digest.mismatch", "the body was changed", "A.5")


def test_the_hint_comes_from_the_table():
    assert TppkitError("digest.mismatch", "").hint == CODES["digest.mismatch"].hint


def test_untrusted_text_in_a_message_cannot_control_a_terminal_or_forge_a_line():
    error = TppkitError("digest.mismatch", "name \x1b[2J\r\n\u202eabc é")
    assert str(error).isprintable()
    assert error.message == "name \\x1b[2J\\r\\n\\u202eabc é"


def test_an_unknown_code_has_no_hint():
    assert TppkitError("no.such-code", "").hint == ""


def test_a_refused_request_has_the_services_status_and_code():
    error = RequestRefused("no", status=401, peer_code="SIGNATURE_INVALID", peer_text="wrong", request_id="1")
    assert (error.code, error.status, error.peer_code) == ("request.refused", 401, "SIGNATURE_INVALID")


def test_findings_are_hashable():
    finding = Finding("certificate.expired", Severity.ERROR, "it expired", values={"at": "now"})
    same = Finding("certificate.expired", Severity.ERROR, "it expired", values={"at": "now"})
    assert len({finding, same}) == 1


def test_an_error_is_pickled_with_all_its_attributes():
    finding = Finding("trust.no-path", Severity.ERROR, "no", "clause 1", MappingProxyType({"a": "1"}), 7)
    sent = [
        TppkitError("time.naive", "no zone", clause="clause 2"),
        FormatError("der.malformed", "cut off", offset=3),
        VerificationError("trust.no-path", "nobody", findings=(finding,)),
        OutcomeUnknown("answer.request-id", "whose", status=503, request_id="z"),
        RequestRefused("refused", status=401, peer_code="X", peer_text="y", request_id="z"),
    ]
    for error in sent:
        arrived = pickle.loads(pickle.dumps(error))
        assert (type(arrived), str(arrived), arrived.args) == (type(error), str(error), error.args)
        assert vars(arrived) == vars(error)


def test_an_unpickled_finding_is_equal_and_read_only():
    finding = Finding("trust.no-path", Severity.ERROR, "no", values=MappingProxyType({"a": "1"}))
    arrived = pickle.loads(pickle.dumps(finding))
    assert arrived == finding
    assert isinstance(arrived.values, MappingProxyType)
