"""Dialects of sealing: `SealProfile` has the settings that differ between banks. `profiles.PROFILES` has the known dialects."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from functools import cached_property, partial
from types import MappingProxyType

from tppkit.certificates import EidasCertificate
from tppkit.errors import ConfigurationError, FormatError
from tppkit.httpsig.algorithms import ALGORITHMS, JWS, RFC9421, Algorithm, Names, Scheme, key_kind
from tppkit.httpsig.cavage import CREATED, EXPIRES, TIMELESS, Reading
from tppkit.httpsig.components import DERIVED, OF_REQUEST, STATUS, is_answer_component
from tppkit.httpsig.digest import make_content_digest, make_digest
from tppkit.httpsig.jws import BODY, REGISTERED
from tppkit.httpsig.signing_string import REQUEST_TARGET, is_covered_field, is_field_name
from tppkit.httpsig.structured import is_key
from tppkit.message import Header, Message
from tppkit.seals.certificate_header import CertificateForm, write_certificate
from tppkit.seals.field_types import require_field_types
from tppkit.seals.form_data import uploaded_file
from tppkit.seals.key_id import BERLIN_GROUP, KeyIdStyle


class Format(Enum):
    """The signature format of a seal."""

    CAVAGE = "draft-cavage-http-signatures"
    RFC9421 = "RFC 9421"
    JWS = "detached JSON Web Signature"


class EmptyBody(Enum):
    """The Digest header of a request without body."""

    HASHED = "digest of no bytes"
    ABSENT = "no Digest header"
    BRACES = "digest of `{}`"


class DigestOf(Enum):
    """What the digest header is computed over."""

    BODY = "the body"
    FIRST_FILE = "the file of a multipart/form-data body, any other body whole"


class FieldOrder(Enum):
    """The order in which covered fields are written. A verifier accepts any order."""

    LISTED = "as listed"
    SORTED = "by name"


# The possible carriers of each format; a format that is not listed can be in any header.
_CARRIERS: Mapping[Format, tuple[str, ...]] = MappingProxyType(
    {Format.CAVAGE: ("Signature", "Authorization"), Format.RFC9421: ("Signature",)}
)

_PRIVATE_RULES = ("time", "subject", "text")
_PRIVATE_NAME = re.compile(r"[!-~]{1,128}")
_ALGORITHM_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")
_IN_BRACKETS: Mapping[Format, frozenset[str]] = MappingProxyType(
    {Format.CAVAGE: frozenset({REQUEST_TARGET, CREATED, EXPIRES}), Format.JWS: frozenset({REQUEST_TARGET, BODY})}
)


def _can_be_covered(name: str, format_: Format, *, in_answer: bool) -> bool:
    if format_ is Format.RFC9421:
        return is_answer_component(name) if in_answer else name in DERIVED or is_covered_field(name)
    if in_answer and name == REQUEST_TARGET:
        return False
    return name in _IN_BRACKETS[format_] or is_covered_field(name.lower())


def covers_target(covered: Collection[str]) -> bool:
    """Whether these names cover method, path and query."""
    path = "@target-uri" in covered or "@request-target" in covered or {"@path", "@query"}.issubset(covered)
    return REQUEST_TARGET in covered or ("@method" in covered and path)


# Names on the wire, and their algorithms; a name may appear once for each kind of key. The guidelines allow SHA-256 and SHA-512
# only, so ecdsa-sha384 is missing.
BERLIN_GROUP_ALGORITHMS = (
    ("rsa-sha256", "rsa-sha256"),
    ("rsa-sha512", "rsa-sha512"),
    ("ecdsa-sha256", "ecdsa-sha256"),
)
# Formats that define the meaning of algorithm names; in draft-cavage, it depends on the dialect.
_NAMES: Mapping[Format, Names] = MappingProxyType({Format.RFC9421: RFC9421, Format.JWS: JWS})


def _usual_algorithms(format_: Format) -> tuple[tuple[str, str], ...]:
    names = _NAMES.get(format_)
    return BERLIN_GROUP_ALGORITHMS if names is None else tuple([(wire, row.name) for wire, row in names.items()])


@dataclass(frozen=True, kw_only=True)
class SealProfile:
    """A dialect of sealing. Derive your own with `dataclasses.replace`, or create one.

    Attributes:
        name: short name, as used on the command line.
        covered: the fields that the signer always covers, in order and in this spelling. If a name has a capital letter, a verifier
            reads names in any case. The signing string has lower-case names. For `Format.JWS` also `(body)` alone: the body itself is
            signed, and neither method, target nor headers.
        covered_if_present: further fields to cover if the request has them; `psu-*` means every field that begins with `psu-`.
        required: the lower-case names that a verifier requires, in addition to those of `covered_if_present` that the request has.
            Empty: all of `covered`.
        only_these: a verifier rejects a seal that covers other fields.
        order: the order in which the signer writes names. A verifier accepts any order.
        request_id: the field that identifies the request; None if the dialect covers none.
        digest_algorithm: the algorithm of the Digest that the signer writes, in its spelling: `SHA-256`, `sha-512`.
        digest_algorithms: the only algorithms that a verifier accepts, in their spelling. Empty: SHA-256 and SHA-512 in any case.
        digest_of: what is hashed. With `FIRST_FILE`, the other fields of a form are not signed, and a form has exactly one file.
        digest_required: a verifier requires `digest_algorithm`, in any case; additional ones must fit the body too.
        empty_body: the Digest of a request without body.
        algorithms: (name on the wire, name of `httpsig.algorithms.ALGORITHMS`), the only ones that a verifier accepts. The signer
            writes the first name of its algorithm. The default algorithm of a key is the first that it supports. Empty: all
            algorithms of the format; for draft-cavage, those of the guidelines.
        key_id: how keyId names the certificate.
        carrier: the header with the signature: `Signature`; `Authorization`, with a value that begins with the word Signature; for
            `Format.JWS` any name, usually `x-jws-signature`.
        label: the label of the signature, for `Format.RFC9421`.
        digest_field: the header with the hash of the body; for `Format.RFC9421` in the syntax of Content-Digest.
        signature_quoted: the signature parameter is quoted. If False, a verifier accepts it with and without quotes.
        certificate_header: the header with the seal certificate; None if the bank already has it.
        certificate_form: the encoding of the certificate in that header.
        private: for a JWS over `(body)`, (name, rule) of the private parameters that crit must list, in order. The rule is `time`, the time
            of signing; `subject`, the name of the seal certificate's subject; `=TEXT`, exactly this text; or `text`, any text, with
            which a verifier reads seals but none is made.
        b64: for a JWS over `(body)`, the signer encodes the body. A verifier reads both forms, because the signed header names it.
        sends_x5c: the certificate is in the signature itself, for `Format.JWS`.
        expires_after: lifetime of a seal, if `(expires)` is covered or `expires` is written; a verifier rejects longer ones.
        max_age: maximum age of a seal, for formats with a time of signing and for dialects that require `(created)`.
        format: the signature format.
        for_answers: the dialect is of a bank's answers, in RFC 9421 or draft-cavage; `@status` and `NAME;req`, a part of the request, can
            be covered in RFC 9421.
        source: the source of the dialect.
        as_of: the date of the source, ISO 8601; empty if it has none.
        read_on: the date on which the source was read, ISO 8601.
        assumed: what the source leaves open, separated by semicolons: names of fields, each alone or with a colon and a remark if only
            a part of it is assumed.

    Raises:
        ConfigurationError: `profile.coverage`, a seal would not cover the body, or would fit several requests; `profile.malformed`,
            a field is of another type, or the fields contradict each other.
    """

    name: str
    covered: tuple[str, ...]
    covered_if_present: tuple[str, ...] = ()
    required: tuple[str, ...] = ()
    only_these: bool = False
    order: FieldOrder = FieldOrder.LISTED
    request_id: str | None = "x-request-id"
    digest_algorithm: str = "SHA-256"
    digest_algorithms: tuple[str, ...] = ()
    digest_of: DigestOf = DigestOf.BODY
    digest_required: bool = False
    empty_body: EmptyBody = EmptyBody.HASHED
    algorithms: tuple[tuple[str, str], ...] = ()
    key_id: KeyIdStyle = BERLIN_GROUP
    carrier: str = "Signature"
    label: str = ""
    digest_field: str = "Digest"
    signature_quoted: bool = True
    certificate_header: str | None = "TPP-Signature-Certificate"
    certificate_form: CertificateForm = CertificateForm.DER
    private: tuple[tuple[str, str], ...] = ()
    b64: bool = True
    sends_x5c: bool = False
    expires_after: timedelta | None = None
    max_age: timedelta | None = None
    format: Format = Format.CAVAGE
    for_answers: bool = False
    source: str
    as_of: str = ""
    read_on: str = ""
    assumed: str = ""

    def __post_init__(self) -> None:
        require_field_types(self)
        if not self.algorithms:
            object.__setattr__(self, "algorithms", _usual_algorithms(self.format))
        if self.request_id is not None:
            object.__setattr__(self, "request_id", self.request_id.lower())
        self._check_format()
        self._check_headers()
        self._check_names()
        self._check_times()
        self._check_coverage()
        self._check_algorithms()
        self._check_digests()
        self._check_private()

    def _check_format(self) -> None:
        if self.carrier not in _CARRIERS.get(self.format, (self.carrier,)):
            raise self._malformed(f"{self.carrier[:40]!r} cannot carry the signature")
        if is_key(self.label) is not (self.format is Format.RFC9421):
            raise self._malformed(f"the label {self.label[:40]!r} is invalid, or the format has no labels")
        if self.for_answers and (self.format is Format.JWS or self.carrier != "Signature"):
            raise self._malformed("answers are sealed in RFC 9421 or draft-cavage, in the Signature header")
        if self.for_answers and (self.empty_body is not EmptyBody.HASHED or self.digest_of is not DigestOf.BODY):
            raise self._malformed("the digest of an answer is of its whole body, also of an empty one")
        if self.sends_x5c and (self.format is not Format.JWS or self.certificate_header is not None):
            raise self._malformed("sends_x5c needs a JSON Web Signature and no certificate_header")

    def _check_headers(self) -> None:
        """Check that the headers of a seal have valid, different names."""
        others = (self.certificate_header, self.request_id, "date")
        headers = [self.carrier, self.digest_field, *(name for name in others if name is not None)]
        for name in headers:
            if not is_field_name(name):
                raise self._malformed(f"{name[:40]!r} is not a header name")
        lower = [*self.carriers, *(name.lower() for name in headers[1:])]
        if len(set(lower)) != len(lower):
            raise self._malformed(f"{', '.join(sorted(lower))}: one header has two purposes")

    def _check_names(self) -> None:
        """Check that each covered name exists in the format, appears once, and is present before the seal is made."""
        for name in (*self.covered, *(name.removesuffix("*") for name in self.covered_if_present)):
            if name.endswith("*") or not _can_be_covered(name, self.format, in_answer=self.for_answers):
                raise self._malformed(f"{name[:40]!r} cannot be covered in a {self.format.value}")
        names = [name.lower() for name in (*self.covered, *self.covered_if_present)]
        if len(set(names)) != len(names):
            raise self._malformed("a name is covered twice")
        unwritten = self.carriers
        if self.format is Format.CAVAGE and self.certificate_header is not None:
            unwritten |= {self.certificate_header.lower()}
        if not unwritten.isdisjoint(names):
            raise self._malformed(
                f"a seal cannot cover {', '.join(sorted(unwritten.intersection(names)))}, which is part of it"
            )

    def _check_times(self) -> None:
        written = set(self.covered_names)
        for length in (self.expires_after, self.max_age):
            if length is not None and length <= timedelta():
                raise self._malformed("expires_after and max_age must be above zero")
        if self.format is Format.CAVAGE and (EXPIRES in written) != (self.expires_after is not None):
            raise self._malformed("(expires) must be covered if expires_after is set, and only then")
        if self.format is Format.CAVAGE and self.max_age is not None and CREATED not in self.demanded:
            raise self._malformed("max_age needs a seal with its time of signing: require (created)")
        if self.format is Format.JWS and self.expires_after is not None:
            raise self._malformed("a JSON Web Signature does not expire; set max_age")
        wire = [name for name, _ in self.algorithms]
        if not written.isdisjoint((CREATED, EXPIRES)) and any(name.startswith(TIMELESS) for name in wire):
            raise self._malformed(f"seals with {', '.join(wire)} cannot cover a time; use hs2019")

    def _check_coverage(self) -> None:
        written = set(self.covered_names)
        if not self.demanded <= written.union(name.lower() for name in self.covered_if_present):
            raise self._malformed("required names a field that is never covered")
        if self.covers_body:
            if written != {BODY} or self.covered_if_present or self.max_age is None:
                raise ConfigurationError(
                    "profile.coverage",
                    f"the profile {self.name!r}: a seal over {BODY} covers nothing else, and needs max_age to limit replays",
                )
            return
        if (
            self.digest_name not in self.demanded & written
            or not self._is_of_one_request()
            or (self.request_id in written and self.request_id not in self.demanded)
        ):
            raise ConfigurationError(
                "profile.coverage",
                f"the profile {self.name!r} requires {', '.join(sorted(self.demanded))}; "
                f"a seal must cover {self.digest_name} and {self.request_id or 'a time'}",
            )
        if self.for_answers and not self._is_bound_to_request():
            raise ConfigurationError(
                "profile.coverage",
                f"the profile {self.name!r}: the seal of an answer must cover {STATUS} and a part of its request, in draft-cavage the "
                "request id",
            )

    def _is_bound_to_request(self) -> bool:
        """Whether the seal of an answer fits one request only."""
        if self.format is Format.CAVAGE:
            return self.request_id in self.demanded
        return STATUS in self.demanded and any(name.endswith(OF_REQUEST) for name in self.demanded)

    def _is_of_one_request(self) -> bool:
        """Whether a seal has a request id, or a time that limits replays; `(created)` alone limits nothing."""
        expires = EXPIRES in self.demanded or (self.format is Format.RFC9421 and self.expires_after is not None)
        return self.request_id in self.demanded or "date" in self.demanded or self.max_age is not None or expires

    def _check_algorithms(self) -> None:
        kinds = [(wire, ALGORITHMS[name].key) for wire, name in self.algorithms if name in ALGORITHMS]
        if len(kinds) != len(self.algorithms) or len(set(kinds)) != len(kinds):
            raise self._malformed(
                "algorithms has an unknown algorithm, or a name with two meanings for one kind of key"
            )
        for wire, _ in self.algorithms:
            if not _ALGORITHM_NAME.fullmatch(wire):
                raise self._malformed(f"{wire[:40]!r} is not a valid name of an algorithm")
        names = _NAMES.get(self.format)
        for wire, name in self.algorithms:
            if names is not None and (wire not in names or names[wire].name != name):
                raise self._malformed(
                    f"{wire} for {name} is not an algorithm of {self.format.value}; choose from {', '.join(names)}, or leave it empty"
                )

    def _check_digests(self) -> None:
        for name in (self.digest_algorithm, *self.digest_algorithms):
            self.digest_function(name)(b"")  # raises for an unknown algorithm
        if self.digest_algorithms and not set(self.digest_algorithm.split(",")) <= set(self.digest_algorithms):
            raise self._malformed(f"it writes the digest {self.digest_algorithm}, which it does not accept")

    def _check_private(self) -> None:
        names, rules = [name for name, _ in self.private], [rule for _, rule in self.private]
        if (self.private or not self.b64) and not self.covers_body:
            raise self._malformed(f"private and b64 need a JSON Web Signature over {BODY}")
        if self.covers_body and self.digest_of is not DigestOf.BODY:
            raise self._malformed(f"digest_of needs a digest header, which a seal over {BODY} does not have")
        if (
            len({*names}) != len(names)
            or not REGISTERED.isdisjoint(names)
            or not all(map(_PRIVATE_NAME.fullmatch, names))
        ):
            raise self._malformed("private has a name twice, a malformed one, or one that JSON Web Signatures define")
        if rules.count("time") > 1 or not all(rule in _PRIVATE_RULES or re.match("=.", rule) for rule in rules):
            raise self._malformed(
                f"a rule of private is not {', '.join(_PRIVATE_RULES)} or =TEXT, or time appears twice"
            )

    def _malformed(self, text: str) -> ConfigurationError:
        return ConfigurationError("profile.malformed", f"the profile {self.name[:40]!r}: {text}")

    @cached_property
    def demanded(self) -> frozenset[str]:
        """The lower-case names that a verifier requires in every request."""
        return frozenset(name.lower() for name in self.required or self.covered)

    @cached_property
    def covered_names(self) -> tuple[str, ...]:
        """`covered` in lower case, as in the signing string."""
        return tuple([name.lower() for name in self.covered])

    @cached_property
    def if_present(self) -> tuple[str, ...]:
        """The names of `covered_if_present` in lower case, without `prefixes`."""
        return tuple([name.lower() for name in self.covered_if_present if not name.endswith("*")])

    @cached_property
    def prefixes(self) -> tuple[str, ...]:
        """The lower-case beginnings of names that are covered if the request has such a field."""
        return tuple([name[:-1].lower() for name in self.covered_if_present if name.endswith("*")])

    @cached_property
    def spellings(self) -> Mapping[str, str]:
        """The spelling of covered names that are not in lower case."""
        return {name.lower(): name for name in (*self.covered, *self.covered_if_present) if name != name.lower()}

    def covered_in(self, values: Collection[str]) -> tuple[str, ...]:
        """The lower-case names to cover in a request with these fields, in order."""
        names = [name for name in self.covered_names if name != self.digest_name or name in values]
        names += [name for name in self.if_present if name in values]
        if self.prefixes:
            names += sorted(name for name in values if name.startswith(self.prefixes) and name not in names)
        return tuple(names if self.order is FieldOrder.LISTED else sorted(names))

    @cached_property
    def digest_name(self) -> str:
        """`digest_field` in lower case, as in the signing string."""
        return self.digest_field.lower()

    @cached_property
    def carriers(self) -> frozenset[str]:
        """The lower-case names of the headers with the signature."""
        return frozenset({self.carrier.lower(), *(["signature-input"] if self.format is Format.RFC9421 else [])})

    @cached_property
    def covers_body(self) -> bool:
        """Whether the payload of the signature is the body, so that no head can be verified without it."""
        return BODY in self.covered_names

    @property
    def hashes_whole_body(self) -> bool:
        """Whether the digest header is of the whole body, so that equal digests are of equal bodies."""
        return not self.covers_body and self.digest_of is DigestOf.BODY

    @property
    def covers_target(self) -> bool:
        """Whether every seal of this dialect covers method and target."""
        return covers_target(self.demanded)

    @cached_property
    def reading(self) -> Reading:
        """The deviations that the parser of the Signature header tolerates."""
        return Reading(any_case=bool(self.spellings), bare_signature=not self.signature_quoted)

    @property
    def empty_content(self) -> bytes:
        """The bytes that both sides hash for a request without body."""
        return b"{}" if self.empty_body is EmptyBody.BRACES else b""

    def digest_function(self, algorithm: str) -> Callable[[bytes], str]:
        """The function that makes the value of the digest header from the hashed bytes, by a digest algorithm."""
        make = make_content_digest if self.format is Format.RFC9421 else make_digest
        return partial(make, algorithm=algorithm)

    def signed_file(self, message: Message) -> bytes | None:
        """The file of a form, if the digest header is of it alone; else None.

        Raises:
            FormatError: `form-data.*`; `header.duplicate`, the Content-Type appears twice.
        """
        if self.digest_of is DigestOf.BODY:
            return None
        return uploaded_file(message.body, message.single("content-type"))

    def hashed(self, message: Message) -> bytes:
        """The bytes of a request that the digest header is of. Raises the errors of `signed_file`."""
        content = self.signed_file(message)
        return content if content is not None else message.body or self.empty_content

    def digest_value(self, content: bytes) -> str:
        """The value of the digest header for these bytes, or for a request without body."""
        return self._make_digest(content or self.empty_content)

    @cached_property
    def _make_digest(self) -> Callable[[bytes], str]:
        return self.digest_function(self.digest_algorithm)

    def certificate_headers(self, certificate: EidasCertificate) -> tuple[Header, ...]:
        """The header with this seal certificate; empty if the dialect has none."""
        if self.certificate_header is None:
            return ()
        return ((self.certificate_header, write_certificate(certificate, self.certificate_form)),)

    def algorithms_of(self, kind: str) -> Mapping[str, Algorithm]:
        """The algorithms of a kind of key by their names on the wire, the default first.

        Raises:
            FormatError: `profile.key`, the dialect has no algorithm for such a key.
        """
        rows = ((wire, ALGORITHMS[name]) for wire, name in self.algorithms)
        fitting = {wire: row for wire, row in rows if row.key == kind}
        if not fitting:
            kinds = " or ".join(dict.fromkeys(ALGORITHMS[name].key for _, name in self.algorithms))
            raise FormatError("profile.key", f"the profile {self.name} seals with {kinds} keys; this one is {kind}")
        return MappingProxyType(fitting)

    def algorithm_for(self, certificate: EidasCertificate) -> Algorithm:
        """The algorithm to seal with: the first of the dialect that the certificate's key supports.

        Raises:
            FormatError: `key.unsupported`, `key.weak`; `profile.key`, the dialect has no algorithm for the key.
        """
        rows = self.algorithms_of(key_kind(certificate.public_key)).values()
        fitting = [row for row in rows if certificate.key.type != "rsa-pss" or row.scheme is Scheme.PSS]
        if not fitting:
            raise FormatError("profile.key", f"the profile {self.name} has no PSS, but this key is for PSS only")
        return fitting[0]

    def name_of(self, algorithm: Algorithm) -> str:
        """The name of an algorithm on the wire.

        Raises:
            ConfigurationError: `profile.algorithm`.
        """
        for wire, name in self.algorithms:
            if name == algorithm.name:
                return wire
        names = ", ".join(dict.fromkeys(name for _, name in self.algorithms))
        raise ConfigurationError(
            "profile.algorithm", f"the profile {self.name!r} has {names}, but the signer has {algorithm.name}"
        )
