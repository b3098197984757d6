"""HTTP message signatures of RFC 9421: the Signature-Input and Signature fields and the signature base.

    Signature-Input: sig1=("@method" "@query" "content-digest");created=1618884473;keyid="key"
    Signature: sig1=:5Zt…:

The key decides the algorithm: it must support `alg`. If `alg` is absent and the key supports several, the caller states the
agreed one. No label, component or parameter may appear twice. A policy checks coverage, age and the digest of the body.
Source: RFC 9421 sections 2.3, 2.5, 3 and 4.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from tppkit._clock import as_utc
from tppkit._encoding import shown
from tppkit.errors import FormatError, SignatureRejected
from tppkit.httpsig.algorithms import Verify, verify_signature
from tppkit.httpsig.components import Component, Origin, answer_component_value, component_value
from tppkit.httpsig.structured import (
    BareItem,
    InnerList,
    Item,
    Member,
    is_key,
    parse_dictionary,
    write_bare_item,
    write_member,
)
from tppkit.httpsig.times import CLOCK_SKEW, verify_times
from tppkit.message import Answer, Message

MAX_COMPONENTS = 64
_PARAMETERS: Mapping[str, type] = {
    "created": int, "expires": int, "nonce": str, "alg": str, "keyid": str, "tag": str,
}  # fmt: skip


class SignatureInput(NamedTuple):
    """The contents of one member of a Signature-Input field.

    Attributes:
        components: the covered components, in order.
        created: seconds since 1970, or None.
        expires: seconds since 1970, or None.
        nonce: as written, or None.
        algorithm: the `alg` parameter, or None; the key must support it.
        key_id: the `keyid` parameter, or None; a hint only.
        tag: as written, or None.
        text: the member as in the last line of the signature base.
    """

    components: tuple[Component, ...]
    created: int | None
    expires: int | None
    nonce: str | None
    algorithm: str | None
    key_id: str | None
    tag: str | None
    text: str


def make_signature_input(
    components: Sequence[Component],
    *,
    created: datetime | None = None,
    expires: datetime | None = None,
    nonce: str | None = None,
    algorithm: str | None = None,
    key_id: str | None = None,
    tag: str | None = None,
) -> SignatureInput:
    """Build the parameters of a new signature.

        parameters = make_signature_input([Component("@method")], created=utc_now(), key_id="k1")

    Args:
        components: the covered components in order, none twice.
        created: the signature's time, aware; whole seconds are written.
        expires: the end of the signature's validity, aware.
        nonce: a unique value.
        algorithm: a name of `algorithms.RFC9421`.
        key_id: the name of the key.
        tag: the name of the application.

    Raises:
        FormatError: `signature.covered-names`, `structured.malformed`.
        ConfigurationError: `time.naive`.
    """
    times = {"created": created, "expires": expires}
    parameters: dict[str, BareItem | None] = {
        name: None if time is None else int(as_utc(time).timestamp()) for name, time in times.items()
    }
    parameters |= {"nonce": nonce, "alg": algorithm, "keyid": key_id, "tag": tag}
    given = tuple([(name, value) for name, value in parameters.items() if value is not None])
    return _read_input(InnerList(tuple([Item(*component) for component in components]), given))


def _read_input(member: Member) -> SignatureInput:
    if not isinstance(member, InnerList):
        raise FormatError("signature.malformed", "a member of Signature-Input is not a list in brackets")
    parameters = dict(member.parameters)
    for name, value in parameters.items():
        # isinstance would accept a boolean as an int.
        if type(value) is not _PARAMETERS.get(name):
            raise FormatError(
                "signature.malformed", f"the parameter {name} of a signature is unknown or of the wrong type"
            )
    return SignatureInput(
        _read_components(member.items),
        parameters.get("created"), parameters.get("expires"), parameters.get("nonce"),  # type: ignore[arg-type]  # compared above
        parameters.get("alg"), parameters.get("keyid"), parameters.get("tag"),  # type: ignore[arg-type]  # compared above
        write_member(member),
    )  # fmt: skip


def _read_components(items: tuple[Item, ...]) -> tuple[Component, ...]:
    if len(items) > MAX_COMPONENTS:
        raise FormatError("signature.covered-names", f"the signature covers more than {MAX_COMPONENTS} components")
    components = []
    seen: set[tuple[str, frozenset[str]]] = set()
    for value, parameters in items:
        if not isinstance(value, str):
            raise FormatError("signature.covered-names", "a covered component is not named by a string")
        component = Component(value, parameters)
        # The order of parameters does not matter (section 2), and 1 differs from ?1.
        identity = value, frozenset([f"{name}={write_bare_item(what)}" for name, what in parameters])
        if value == "@signature-params" or identity in seen:
            raise FormatError("signature.covered-names", f"the signature covers {shown(str(component))} twice")
        seen.add(identity)
        components.append(component)
    return tuple(components)


def make_signature_base(parameters: SignatureInput, value: Callable[[Component], str]) -> bytes:
    """Return the bytes to sign: one line for each component, then the parameters.

        signature = signer.sign(make_signature_base(parameters, request_values(message)))

    Args:
        parameters: the parameters of the signature.
        value: returns the value of a component: `request_values` or `answer_values`.

    Raises:
        FormatError: `signature.unsupported-component`, a value is not one line of ASCII; what `value` raises.

    Source: RFC 9421 section 2.5.
    """
    lines = []
    for component in parameters.components:
        text = value(component)
        if not text.isascii() or not text.replace("\t", "").isprintable():
            raise FormatError(
                "signature.unsupported-component", f"the value of {shown(str(component))} is not one line of ASCII"
            )
        lines.append(f"{component}: {text}")
    lines.append(f'"@signature-params": {parameters.text}')
    return "\n".join(lines).encode("ascii")


def request_values(message: Message, *, origin: Origin | None = None) -> Callable[[Component], str]:
    """Return a function that returns the value of a component in this request (see `components.component_value`).

    Example:
        base = make_signature_base(parameters, request_values(message, origin=parse_origin("https://bank.example")))
    """
    query: dict[str, list[str]] = {}
    return lambda component: component_value(message, component, origin=origin, query=query)


def answer_values(answer: Answer, *, request: Message, origin: Origin | None = None) -> Callable[[Component], str]:
    """Return a function that returns the value of a component in this answer (see `components.answer_component_value`).

    Example:
        base = make_signature_base(parameters, answer_values(answer, request=request))
    """
    query: dict[str, list[str]] = {}
    return lambda component: answer_component_value(answer, component, request=request, origin=origin, query=query)


def make_signature_fields(parameters: SignatureInput, signature: bytes, *, label: str) -> tuple[str, str]:
    """Return the values of the Signature-Input and Signature fields with this signature.

        fields = make_signature_fields(parameters, signature, label="sig1")

    Raises:
        FormatError: `signature.label`, the label is not a valid key of a dictionary.
    """
    if not is_key(label):
        raise FormatError("signature.label", f"{shown(label)} cannot be a label: use lower case, digits, - _ . *")
    return f"{label}={parameters.text}", f"{label}={write_bare_item(signature)}"


def parse_signature_fields(
    signature_input: str, signature: str, *, label: str | None = None
) -> tuple[SignatureInput, bytes]:
    """Parse one signature of a message.

    Args:
        signature_input: the value of the Signature-Input field, several lines joined by `, `.
        signature: the value of the Signature field.
        label: the label of the signature; None: the only one.

    Returns:
        The parameters of the signature, and its bytes.

    Raises:
        FormatError: `structured.malformed`, `structured.duplicate`, `signature.malformed`, `signature.covered-names`,
            `signature.label`, `base64.malformed`, `base64.noncanonical`.
        SignatureRejected: `signature.missing`, no signature has this label.

    Source: RFC 9421 sections 4.1 and 4.2.
    """
    inputs = parse_dictionary(signature_input, what="the Signature-Input field")
    signatures = parse_dictionary(signature, what="the Signature field")
    if inputs.keys() != signatures.keys():
        raise FormatError(
            "signature.label",
            f"Signature-Input has the labels {shown(', '.join(inputs))}, Signature {shown(', '.join(signatures))}",
        )
    if label is None and len(inputs) > 1:
        raise FormatError(
            "signature.label", f"the message has several signatures ({shown(', '.join(inputs))}): name a label"
        )
    chosen = label if label is not None else next(iter(inputs), "")
    if chosen not in inputs:
        raise SignatureRejected("signature.missing", f"the message has no signature {shown(chosen)}")
    member = signatures[chosen]
    if not (isinstance(member, Item) and isinstance(member.value, bytes)) or member.parameters:
        raise FormatError("signature.malformed", f"the signature {shown(chosen)} is not one byte sequence")
    return _read_input(inputs[chosen]), member.value


class VerifiedSignature(NamedTuple):
    """A verified signature: the owner of the key signed these lines.

    Attributes:
        parameters: the parameters of the signature.
        base: the signed bytes.
    """

    parameters: SignatureInput
    base: bytes


def verify_message_signature(
    message: Message,
    *,
    verifiers: Mapping[str, Verify],
    at: datetime,
    label: str | None = None,
    origin: Origin | None = None,
    algorithm: str | None = None,
    skew: timedelta = CLOCK_SKEW,
    max_age: timedelta | None = None,
) -> VerifiedSignature:
    """Verify one signature of a request. The caller must check what it covers, and the digest of the body.

        verified = verify_message_signature(message, verifiers=make_verifiers(key, names=RFC9421), at=utc_now())
        verified.parameters.components

    Args:
        message: the request as received.
        verifiers: those of the key, by the names of RFC 9421: `make_verifiers(key, names=RFC9421)`.
        at: the time to judge at, aware.
        label: the label of the signature; None: the only one.
        origin: the origin of the request, for signatures that cover it.
        algorithm: the agreed algorithm, if any.
        skew: tolerated difference between the two clocks.
        max_age: maximum age of the signature.

    Raises:
        FormatError: see `parse_signature_fields` and `make_signature_base`.
        SignatureRejected: `signature.missing`, `signature.algorithm`, `signature.created`, `signature.expired`,
            `signature.header-absent`, `signature.invalid`.
    """
    signature_input, signature = (", ".join(message.values(name)) for name in ("signature-input", "signature"))
    parameters, raw = parse_signature_fields(signature_input, signature, label=label)
    name = _choose_algorithm(parameters, verifiers, agreed=algorithm)
    verify_times(parameters.created, parameters.expires, at=at, skew=skew, max_age=max_age)
    base = make_signature_base(parameters, request_values(message, origin=origin))
    verify_signature(verifiers, name, raw, base)
    return VerifiedSignature(parameters, base)


def _choose_algorithm(parameters: SignatureInput, verifiers: Mapping[str, Verify], *, agreed: str | None) -> str:
    """Return the name of the algorithm to verify with: the agreed one, else `alg`, else the key's only one.

    Raises:
        SignatureRejected: `signature.algorithm`, `alg` is not the agreed one, or it is absent and the key has several.

    Source: RFC 9421 section 3.2 step 6.
    """
    named = parameters.algorithm
    if agreed is not None and named not in (None, agreed):
        raise SignatureRejected("signature.algorithm", f"the signature names {shown(named)}, but {agreed} was agreed")
    only = next(iter(verifiers)) if len(verifiers) == 1 else None
    chosen = next((name for name in (agreed, named, only) if name is not None), None)
    if chosen is None:
        raise SignatureRejected(
            "signature.algorithm", f"the signature has no alg, and the key is for {' or '.join(verifiers)}"
        )
    return chosen
