"""What varies between banks' dialects of sealing: the fields of one row of `profiles.PROFILES`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from functools import cached_property
from types import MappingProxyType

from tppkit.certificates import EidasCertificate
from tppkit.errors import ConfigurationError, FormatError
from tppkit.httpsig.algorithms import ALGORITHMS, Algorithm
from tppkit.httpsig.cavage import CREATED, EXPIRES, Reading
from tppkit.httpsig.digest import digest_hash
from tppkit.httpsig.message import REQUEST_TARGET, Header
from tppkit.seals.certificate_header import CertificateForm, write_certificate
from tppkit.seals.key_id import BERLIN_GROUP, KeyIdStyle

DIGEST = "digest"


class Format(Enum):
    """How a seal stands in a request."""

    CAVAGE = "draft-cavage-http-signatures"


class EmptyBody(Enum):
    """What the Digest header of a request without body says."""

    HASHED = "digest of no bytes"
    ABSENT = "no Digest header"
    BRACES = "digest of `{}`"


class Order(Enum):
    """In which order covered fields are written."""

    LISTED = "as listed"
    SORTED = "by name"


# Names on the wire, and the algorithm each stands for; a name may stand once for each kind of key.
BERLIN_GROUP_ALGORITHMS = (
    ("rsa-sha256", "rsa-sha256"),
    ("rsa-sha512", "rsa-sha512"),
    ("ecdsa-sha256", "ecdsa-sha256"),
    ("ecdsa-sha384", "ecdsa-sha384"),
)


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
        order: in which order we write the names.
        request_id: the field that names the request; None where the dialect covers none.
        digest_algorithm: the Digest we write, spelled as it is written: `SHA-256`, `sha-512`; both algorithms are read.
        empty_body: what is done for a request without body.
        algorithms: (name on the wire, name of `httpsig.ALGORITHMS`); a verifier takes these only. We write the first one of
            the signer's algorithm, and a key's usual algorithm is the first one that it can have.
        key_id: how keyId names the certificate.
        carrier: `Signature`, or `Authorization`, whose value begins with the word Signature.
        signature_quoted: the signature parameter stands between quotes; where it does not, both are read.
        certificate_header: the header that carries the seal certificate; None where the bank knows it already.
        certificate_form: how it stands there.
        expires_after: how long a seal counts, where `(expires)` is covered.
        format: which kind of signature.
        source: where the row comes from.
        as_of: the date of that source, ISO 8601; empty when it has none.
        assumed: what the source does not say and was taken from the Berlin Group's guidelines.

    Raises:
        ConfigurationError: `profile.coverage`, a seal would prove neither the body nor which request it was; `profile.malformed`.
    """

    name: str
    covered: tuple[str, ...]
    covered_if_present: tuple[str, ...] = ()
    required: tuple[str, ...] = ()
    only_these: bool = False
    order: Order = Order.LISTED
    request_id: str | None = "x-request-id"
    digest_algorithm: str = "SHA-256"
    empty_body: EmptyBody = EmptyBody.HASHED
    algorithms: tuple[tuple[str, str], ...] = BERLIN_GROUP_ALGORITHMS
    key_id: KeyIdStyle = BERLIN_GROUP
    carrier: str = "Signature"
    signature_quoted: bool = True
    certificate_header: str | None = "TPP-Signature-Certificate"
    certificate_form: CertificateForm = CertificateForm.DER
    expires_after: timedelta | None = None
    format: Format = Format.CAVAGE
    source: str
    as_of: str = ""
    assumed: str = ""

    def __post_init__(self) -> None:
        self._check_coverage()
        self._check_algorithms()
        digest_hash(self.digest_algorithm)
        if self.carrier not in ("Signature", "Authorization"):
            raise self._malformed(f"carrier is {self.carrier[:40]!r}, not Signature or Authorization")
        if (EXPIRES in self.demanded) != (self.expires_after is not None):
            raise self._malformed("(expires) is covered exactly where expires_after says how long a seal counts")

    def _check_coverage(self) -> None:
        written = {name.lower() for name in self.covered}
        if not self.demanded <= written.union(name.lower() for name in self.covered_if_present):
            raise self._malformed("required names a field that is never covered")
        # A seal is of one request: by its id, or else by a date, which bounds how long it can be replayed.
        identity = [name for name in (self.request_id, "date", CREATED) if name in self.demanded]
        if (
            DIGEST not in self.demanded
            or not identity
            or (self.request_id in written and self.request_id not in self.demanded)
        ):
            raise ConfigurationError(
                "profile.coverage",
                f"the profile {self.name!r} demands {', '.join(sorted(self.demanded))}; "
                f"a seal must cover digest and {self.request_id or 'date'}",
            )

    def _check_algorithms(self) -> None:
        kinds = [(wire, ALGORITHMS[name].key) for wire, name in self.algorithms if name in ALGORITHMS]
        if len(kinds) != len(self.algorithms) or len(set(kinds)) != len(kinds) or not kinds:
            raise self._malformed("algorithms names one that is not known, or gives a name two meanings for one key")

    def _malformed(self, text: str) -> ConfigurationError:
        return ConfigurationError("profile.malformed", f"the profile {self.name[:40]!r}: {text}")

    @cached_property
    def demanded(self) -> frozenset[str]:
        """What a verifier demands in every request, lower case."""
        return frozenset(name.lower() for name in self.required or self.covered)

    @property
    def covers_target(self) -> bool:
        """Whether method and target are proven by every seal of this dialect."""
        return REQUEST_TARGET in self.demanded

    @cached_property
    def reading(self) -> Reading:
        """What the reader of the Signature header tolerates."""
        names = (*self.covered, *self.covered_if_present)
        return Reading(any_case=any(name != name.lower() for name in names), bare_signature=not self.signature_quoted)

    def certificate_headers(self, certificate: EidasCertificate) -> tuple[Header, ...]:
        """The header that carries this seal certificate, if the dialect has one."""
        if self.certificate_header is None:
            return ()
        return ((self.certificate_header, write_certificate(certificate, self.certificate_form)),)

    def algorithms_of(self, kind: str) -> Mapping[str, Algorithm]:
        """The algorithms of a kind of key by their names on the wire, the usual one first.

        Raises:
            FormatError: `key.unsupported`, it has none.
        """
        rows = ((wire, ALGORITHMS[name]) for wire, name in self.algorithms)
        fitting = {wire: row for wire, row in rows if row.key == kind}
        if not fitting:
            raise FormatError("key.unsupported", f"the profile {self.name} has no algorithm for a {kind} key")
        return MappingProxyType(fitting)

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
