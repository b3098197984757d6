"""What varies between banks' dialects of sealing: the fields of one row of `profiles.PROFILES`."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from functools import cached_property
from types import MappingProxyType

from tppkit.certificates import EidasCertificate
from tppkit.errors import ConfigurationError, FormatError
from tppkit.httpsig.algorithms import ALGORITHMS, JWS, RFC9421, Algorithm, Names, Scheme, key_kind
from tppkit.httpsig.cavage import CREATED, EXPIRES, TIMELESS, Reading
from tppkit.httpsig.components import DERIVED
from tppkit.httpsig.content_digest import make_content_digest
from tppkit.httpsig.digest import make_digest
from tppkit.httpsig.message import REQUEST_TARGET, Header, is_covered_field, is_field_name
from tppkit.httpsig.structured import is_key
from tppkit.seals.certificate_header import CertificateForm, write_certificate
from tppkit.seals.field_types import require_field_types
from tppkit.seals.key_id import BERLIN_GROUP, KeyIdStyle


class Format(Enum):
    """How a seal stands in a request."""

    CAVAGE = "draft-cavage-http-signatures"
    RFC9421 = "RFC 9421"
    JWS = "detached JSON Web Signature"


class EmptyBody(Enum):
    """What the Digest header of a request without body says."""

    HASHED = "digest of no bytes"
    ABSENT = "no Digest header"
    BRACES = "digest of `{}`"


class Order(Enum):
    """In which order covered fields are written; read they are in any."""

    LISTED = "as listed"
    SORTED = "by name"


# The headers that each format can stand in; others than these stand in any.
_CARRIERS: Mapping[Format, tuple[str, ...]] = MappingProxyType(
    {Format.CAVAGE: ("Signature", "Authorization"), Format.RFC9421: ("Signature",)}
)

_ALGORITHM_NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")
_IN_BRACKETS: Mapping[Format, frozenset[str]] = MappingProxyType(
    {Format.CAVAGE: frozenset({REQUEST_TARGET, CREATED, EXPIRES}), Format.JWS: frozenset({REQUEST_TARGET})}
)


def _can_be_covered(name: str, format_: Format) -> bool:
    if format_ is Format.RFC9421:
        return name in DERIVED or is_covered_field(name)
    return name in _IN_BRACKETS[format_] or is_covered_field(name.lower())


def covers_target(covered: Collection[str]) -> bool:
    """Whether these names prove method, path and query."""
    path = "@target-uri" in covered or "@request-target" in covered or {"@path", "@query"}.issubset(covered)
    return REQUEST_TARGET in covered or ("@method" in covered and path)


# Names on the wire, and the algorithm each stands for; a name may stand once for each kind of key. The guidelines allow SHA-256
# and SHA-512 only, so there is no ecdsa-sha384.
BERLIN_GROUP_ALGORITHMS = (
    ("rsa-sha256", "rsa-sha256"),
    ("rsa-sha512", "rsa-sha512"),
    ("ecdsa-sha256", "ecdsa-sha256"),
)
# Formats that say themselves which algorithm a name stands for; in draft-cavage a dialect says it.
_NAMES: Mapping[Format, Names] = MappingProxyType({Format.RFC9421: RFC9421, Format.JWS: JWS})


def _usual_algorithms(format_: Format) -> tuple[tuple[str, str], ...]:
    names = _NAMES.get(format_)
    return BERLIN_GROUP_ALGORITHMS if names is None else tuple([(wire, row.name) for wire, row in names.items()])


@dataclass(frozen=True, kw_only=True)
class SealProfile:
    """One dialect of sealing. Make a row of your own with `dataclasses.replace`, or from nothing.

    Attributes:
        name: short name, as the command line takes it.
        covered: the fields that we always write, in order. Names stand in the signature as they stand here; a row with a
            capital letter reads them in any case, and a line of the signing string begins with the lower-case name.
        covered_if_present: further fields that are covered when the request has them; `psu-*` means every field that begins so.
        required: what a verifier demands, besides those of `covered_if_present` that the request has; lower case. Empty: all
            of `covered`.
        only_these: a verifier refuses a seal that covers anything else.
        order: in which order we write the names. A verifier takes any: the signature says in which order it was made, and no
            source of a row demands one.
        request_id: the field that names the request; None where the dialect covers none.
        digest_algorithm: the Digest we write, spelled as it is written: `SHA-256`, `sha-512`.
        digest_algorithms: the only ones that a verifier takes, spelled so. Empty: SHA-256 and SHA-512, in any spelling.
        digest_required: a verifier demands `digest_algorithm`, in any spelling; others beside it must fit the body too.
        empty_body: what is done for a request without body.
        algorithms: (name on the wire, name of `httpsig.ALGORITHMS`); a verifier takes these only. We write the first one of
            the signer's algorithm, and a key's usual algorithm is the first one that it can have. Empty: those of the format, which
            for `Format.RFC9421` and `Format.JWS` are the only ones there are, and the guidelines' for draft-cavage.
        key_id: how keyId names the certificate.
        carrier: the header with the signature: `Signature`; `Authorization`, whose value begins with the word Signature; for
            `Format.JWS` any name, usually `x-jws-signature`.
        label: of the signature, for `Format.RFC9421`.
        digest_field: the header with the hash of the body; for `Format.RFC9421` it is written as Content-Digest is.
        signature_quoted: the signature parameter stands between quotes; where it does not, both are read.
        certificate_header: the header that carries the seal certificate; None where the bank knows it already.
        certificate_form: how it stands there.
        sends_x5c: the certificate stands in the signature itself, for `Format.JWS`.
        expires_after: how long a seal counts, where `(expires)` is covered or `expires` written; a verifier gives none longer.
        max_age: how old a seal may be, for formats that say when it was made and for rows that demand `(created)`.
        format: which kind of signature.
        source: where the row comes from.
        as_of: the date of that source, ISO 8601; of a source without a date, when it was read.
        assumed: what the source does not say and was taken from the Berlin Group's guidelines.

    Raises:
        ConfigurationError: `profile.coverage`, a seal would prove neither the body nor which request it was; `profile.malformed`,
            a field is of another type, or the row contradicts itself.
    """

    name: str
    covered: tuple[str, ...]
    covered_if_present: tuple[str, ...] = ()
    required: tuple[str, ...] = ()
    only_these: bool = False
    order: Order = Order.LISTED
    request_id: str | None = "x-request-id"
    digest_algorithm: str = "SHA-256"
    digest_algorithms: tuple[str, ...] = ()
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
    sends_x5c: bool = False
    expires_after: timedelta | None = None
    max_age: timedelta | None = None
    format: Format = Format.CAVAGE
    source: str
    as_of: str = ""
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

    def _check_format(self) -> None:
        if self.carrier not in _CARRIERS.get(self.format, (self.carrier,)):
            raise self._malformed(f"{self.carrier[:40]!r} cannot carry the signature")
        if is_key(self.label) is not (self.format is Format.RFC9421):
            raise self._malformed(f"the label {self.label[:40]!r} is none, or the format has no labels")
        if self.sends_x5c and (self.format is not Format.JWS or self.certificate_header is not None):
            raise self._malformed("x5c stands in a JSON Web Signature and in no header of its own")

    def _check_headers(self) -> None:
        """The headers that a seal consists of are headers, and no two of them are one."""
        others = (self.certificate_header, self.request_id, "date")
        headers = [self.carrier, self.digest_field, *(name for name in others if name is not None)]
        for name in headers:
            if not is_field_name(name):
                raise self._malformed(f"{name[:40]!r} is no header's name")
        lower = [*self.carriers, *(name.lower() for name in headers[1:])]
        if len(set(lower)) != len(lower):
            raise self._malformed(f"{', '.join(sorted(lower))}: one header cannot be two things")

    def _check_names(self) -> None:
        """Every covered name is one that the format has, stands once, and can be there when the seal is made."""
        conditional = [name.removesuffix("*") for name in self.covered_if_present]
        for name in (*self.covered, *conditional):
            if name.endswith("*") or not _can_be_covered(name, self.format):
                raise self._malformed(f"{name[:40]!r} cannot be covered in a {self.format.value}")
        names = [name.lower() for name in (*self.covered, *self.covered_if_present)]
        if len(set(names)) != len(names):
            raise self._malformed("a name is covered twice")
        unwritten = self.carriers
        if self.format is Format.CAVAGE and self.certificate_header is not None:
            unwritten |= {self.certificate_header.lower()}
        if not unwritten.isdisjoint(names):
            raise self._malformed(
                f"{', '.join(sorted(unwritten.intersection(names)))} cannot be covered by the seal in it"
            )

    def _check_times(self) -> None:
        written = {name.lower() for name in self.covered}
        for length in (self.expires_after, self.max_age):
            if length is not None and length <= timedelta():
                raise self._malformed("expires_after and max_age are longer than nothing")
        if self.format is Format.CAVAGE and (EXPIRES in written) != (self.expires_after is not None):
            raise self._malformed("(expires) is covered exactly where expires_after says how long a seal counts")
        if self.format is Format.CAVAGE and self.max_age is not None and CREATED not in self.demanded:
            raise self._malformed("max_age needs a seal that says when it was made: demand (created)")
        if self.format is Format.JWS and self.expires_after is not None:
            raise self._malformed("a JSON Web Signature does not expire; say max_age")
        wire = [name for name, _ in self.algorithms]
        if not written.isdisjoint((CREATED, EXPIRES)) and any(name.startswith(TIMELESS) for name in wire):
            raise self._malformed(f"seals by {', '.join(wire)} cannot cover a time; say hs2019")

    def _check_coverage(self) -> None:
        written = {name.lower() for name in self.covered}
        if not self.demanded <= written.union(name.lower() for name in self.covered_if_present):
            raise self._malformed("required names a field that is never covered")
        if (
            self.digest_name not in self.demanded & written
            or not self._is_of_one_request()
            or (self.request_id in written and self.request_id not in self.demanded)
        ):
            raise ConfigurationError(
                "profile.coverage",
                f"the profile {self.name!r} demands {', '.join(sorted(self.demanded))}; "
                f"a seal must cover {self.digest_name} and {self.request_id or 'a time'}",
            )

    def _is_of_one_request(self) -> bool:
        """By its id, or else by a time, which bounds how long a seal can be replayed; `(created)` alone bounds nothing."""
        expires = EXPIRES in self.demanded or (self.format is Format.RFC9421 and self.expires_after is not None)
        return self.request_id in self.demanded or "date" in self.demanded or self.max_age is not None or expires

    def _check_algorithms(self) -> None:
        kinds = [(wire, ALGORITHMS[name].key) for wire, name in self.algorithms if name in ALGORITHMS]
        if len(kinds) != len(self.algorithms) or len(set(kinds)) != len(kinds):
            raise self._malformed("algorithms names one that is not known, or gives a name two meanings for one key")
        for wire, _ in self.algorithms:
            if not _ALGORITHM_NAME.fullmatch(wire):
                raise self._malformed(f"{wire[:40]!r} cannot stand as an algorithm's name")
        names = _NAMES.get(self.format)
        for wire, name in self.algorithms:
            if names is not None and (wire not in names or names[wire].name != name):
                raise self._malformed(
                    f"{wire} for {name} is no algorithm of a {self.format.value}; say which of {', '.join(names)}, or none for all"
                )

    def _check_digests(self) -> None:
        make = make_content_digest if self.format is Format.RFC9421 else make_digest
        for name in (self.digest_algorithm, *self.digest_algorithms):
            make(b"", algorithm=name)  # which knows the algorithms
        if self.digest_algorithms and not set(self.digest_algorithm.split(",")) <= set(self.digest_algorithms):
            raise self._malformed(f"it writes the digest {self.digest_algorithm}, which it does not take")

    def _malformed(self, text: str) -> ConfigurationError:
        return ConfigurationError("profile.malformed", f"the profile {self.name[:40]!r}: {text}")

    @cached_property
    def demanded(self) -> frozenset[str]:
        """What a verifier demands in every request, lower case."""
        return frozenset(name.lower() for name in self.required or self.covered)

    @cached_property
    def digest_name(self) -> str:
        """`digest_field` in lower case, as it is covered."""
        return self.digest_field.lower()

    @cached_property
    def carriers(self) -> frozenset[str]:
        """The headers that the signature stands in, lower case."""
        return frozenset({self.carrier.lower(), *(["signature-input"] if self.format is Format.RFC9421 else [])})

    @property
    def covers_target(self) -> bool:
        """Whether method and target are proven by every seal of this dialect."""
        return covers_target(self.demanded)

    @cached_property
    def reading(self) -> Reading:
        """What the reader of the Signature header tolerates."""
        names = (*self.covered, *self.covered_if_present)
        return Reading(any_case=any(name != name.lower() for name in names), bare_signature=not self.signature_quoted)

    @property
    def empty_content(self) -> bytes:
        """What both sides hash for a request without body, whatever its method."""
        return b"{}" if self.empty_body is EmptyBody.BRACES else b""

    def certificate_headers(self, certificate: EidasCertificate) -> tuple[Header, ...]:
        """The header that carries this seal certificate, if the dialect has one."""
        if self.certificate_header is None:
            return ()
        return ((self.certificate_header, write_certificate(certificate, self.certificate_form)),)

    def algorithms_of(self, kind: str) -> Mapping[str, Algorithm]:
        """The algorithms of a kind of key by their names on the wire, the usual one first.

        Raises:
            FormatError: `profile.key`, it has none.
        """
        rows = ((wire, ALGORITHMS[name]) for wire, name in self.algorithms)
        fitting = {wire: row for wire, row in rows if row.key == kind}
        if not fitting:
            kinds = " or ".join(dict.fromkeys(ALGORITHMS[name].key for _, name in self.algorithms))
            raise FormatError("profile.key", f"the profile {self.name} seals with {kinds} keys; this one is {kind}")
        return MappingProxyType(fitting)

    def algorithm_for(self, certificate: EidasCertificate) -> Algorithm:
        """The algorithm to seal with under a certificate: the first of the row that its key can have.

        Raises:
            FormatError: `key.unsupported`, `key.weak`; `profile.key`, the row has none for the key.
        """
        rows = self.algorithms_of(key_kind(certificate.public_key)).values()
        fitting = [row for row in rows if certificate.key.type != "rsa-pss" or row.scheme is Scheme.PSS]
        if not fitting:
            raise FormatError(
                "profile.key", f"the profile {self.name} has no PSS, and this key signs with nothing else"
            )
        return fitting[0]

    def name_of(self, algorithm: Algorithm) -> str:
        """How an algorithm is written.

        Raises:
            ConfigurationError: `profile.algorithm`.
        """
        for wire, name in self.algorithms:
            if name == algorithm.name:
                return wire
        names = ", ".join(dict.fromkeys(name for _, name in self.algorithms))
        raise ConfigurationError(
            "profile.algorithm", f"the profile {self.name!r} seals with {names}, the signer with {algorithm.name}"
        )
