"""The verifier itself, asked about everything but trust; and what a dialect finds wrong with coverage, keyId and algorithm."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import NamedTuple

from tppkit.certificates import EidasCertificate, OrganizationPolicy, Use
from tppkit.errors import FormatError, SignatureRejected, VerificationError
from tppkit.httpsig.algorithms import ALGORITHMS, Algorithm, Scheme, key_kind
from tppkit.httpsig.cavage import SignatureParameters
from tppkit.httpsig.components import Origin
from tppkit.httpsig.jws import parse_detached_jws
from tppkit.httpsig.message import Message
from tppkit.seals.diagnose.form import Fault, fault
from tppkit.seals.diagnose.mistake import Mistake, Part
from tppkit.seals.diagnose.recover import Made
from tppkit.seals.diagnose.signing import signing_fault
from tppkit.seals.key_id import KeyIdForm, KeyIdStyle, Radix, verify_key_id
from tppkit.seals.policy import BelievedSeal, Demands, SealPolicy, demands_of
from tppkit.seals.profile import Format, SealProfile
from tppkit.seals.profiles import PROFILES
from tppkit.seals.verify import verify_request
from tppkit.trust import TrustedPath, Window

UNCOVERED = Mistake(
    "uncovered", Part.COVERAGE, "The signature does not cover a header that the dialect demands.",
    "Cover it: name it in headers (in a JSON Web Signature in pars of sigD), and sign its line."
)  # fmt: skip
COVERED_TOO_MUCH = Mistake(
    "covered-too-much", Part.COVERAGE, "The signature covers something that the dialect does not allow.",
    "Cover what the dialect names, and nothing else."
)  # fmt: skip
DIALECT = Mistake(
    "other-dialect", Part.DIALECT, "The request is sealed correctly, in another bank's dialect.",
    "Seal in the dialect of the bank that is called (--profile)."
)  # fmt: skip

# Names from elsewhere that say what is meant.
_ALIASES = {
    "sha256withrsa": "rsa-sha256", "rs256": "rsa-sha256", "rsa-v1_5-sha256": "rsa-sha256", "sha512withrsa": "rsa-sha512",
    "rs512": "rsa-sha512", "ps256": "rsa-pss-sha256", "ps512": "rsa-pss-sha512", "rsassa-pss": "rsa-pss-sha256",
    "sha256withecdsa": "ecdsa-sha256", "es256": "ecdsa-p256-sha256", "sha384withecdsa": "ecdsa-sha384",
}  # fmt: skip

# How a keyId is written that names a certificate, and so proves that it is the one: each style once, those of dialects first.
_NAMING = (KeyIdForm.CERTIFICATE, KeyIdForm.SERIAL, KeyIdForm.THUMBPRINT)
_OF_DIALECTS = tuple(dict.fromkeys(row.key_id for row in PROFILES.values() if row.key_id.form in _NAMING))
_SPELLINGS = (
    *((one, f"as {next(row.name for row in PROFILES.values() if row.key_id == one)} has it") for one in _OF_DIALECTS),
    (KeyIdStyle(radix=Radix.DECIMAL, issuer_optional=True, drops_newlines=True), "with the serial in decimal"),
    (KeyIdStyle(form=KeyIdForm.SERIAL), "as the serial alone, in hexadecimal"),
)
_CREATED = re.compile(r"""[,; ]created=([0-9]{1,11})(?![0-9])""")

Refusal = FormatError | VerificationError


class _Unjudged:
    """Believes whatever it is shown: trust is not what is asked here."""

    def verify_use(
        self, certificate: EidasCertificate, *, as_: Use, at: datetime, intermediates: Sequence[EidasCertificate] = ()
    ) -> TrustedPath:
        return TrustedPath((certificate,), Window())


class _AnyOrganization(OrganizationPolicy):
    """Accepts every organisation: whose certificates a bank takes is not what is asked here."""

    def require(self, certificate: EidasCertificate) -> None:
        """Refuse none."""


class Given(NamedTuple):
    """What a request is judged by besides its certificate and dialect.

    Attributes:
        at: the time; None for the request's own, so that an old request is not refused for its age.
        qwac: the certificate of its connection, whose organisation the seal must have; None where that is not known.
        origin: where it was sent, for a dialect that covers scheme or authority.
    """

    at: datetime | None = None
    qwac: EidasCertificate | None = None
    origin: Origin | None = None


def believing_policy(profile: SealProfile, origin: Origin | None) -> SealPolicy:
    """A policy of this dialect that believes every certificate."""
    return SealPolicy(_Unjudged(), profile=profile, origin=origin, organizations=_AnyOrganization())


class _AnySignature(SealPolicy):
    """Takes every signature under the names of the key's algorithms, so that what else a verifier asks can be asked alone."""

    def believe(
        self, certificate: EidasCertificate, *, at: datetime, intermediates: Sequence[EidasCertificate]
    ) -> BelievedSeal:
        """The seal, with verifiers that refuse nothing."""
        seal = super().believe(certificate, at=at, intermediates=intermediates)
        return seal._replace(verifiers=dict.fromkeys(seal.verifiers, _take))


def _take(signature: bytes, data: bytes) -> None:
    """Refuse no signature."""


class _EveryKeyId(Mapping[str, EidasCertificate]):
    """One certificate, known by whatever keyId a request names."""

    def __init__(self, certificate: EidasCertificate) -> None:
        self._certificate = certificate

    def __getitem__(self, key_id: str) -> EidasCertificate:
        return self._certificate

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


def refusal(
    message: Message, *, certificate: EidasCertificate, profile: SealProfile, given: Given, any_signature: bool = False
) -> Refusal | None:
    """Why `verify_request` would refuse a request whose certificate it believes; None when it would not.

    Args:
        message: the request.
        certificate: the one that is known, for a dialect that sends none.
        profile: the dialect.
        given: what else it is judged by.
        any_signature: take whatever signature it has, and judge the rest.
    """
    policy_of = _AnySignature if any_signature else SealPolicy
    policy = policy_of(
        _Unjudged(), profile=profile, certificates=_EveryKeyId(certificate), origin=given.origin,
        organizations=_AnyOrganization(),
    )  # fmt: skip
    try:
        verify_request(message, qwac=given.qwac, at=given.at or _own_time(message, profile), policy=policy)
    except (FormatError, VerificationError) as e:
        return e
    return None


def _own_time(message: Message, profile: SealProfile) -> datetime:
    """When the request says that it was sealed; without that, some time that no request is judged by."""
    if profile.format is Format.JWS:
        for value in message.values(profile.carrier):
            with suppress(FormatError):
                signed_at = parse_detached_jws(value.strip(" \t"))[0].signed_at
                if signed_at is not None:
                    return signed_at
    for value in (*message.values("signature"), *message.values("signature-input"), *message.values("authorization")):
        created = _CREATED.search(value)
        if created is not None:
            return datetime.fromtimestamp(int(created[1]), UTC)
    for value in message.values("date"):
        try:
            return parsedate_to_datetime(value).replace(tzinfo=UTC)
        except (ValueError, TypeError, IndexError, OverflowError):
            continue
    return datetime(2000, 1, 1, tzinfo=UTC)


def other_dialects(
    message: Message,
    *,
    certificate: EidasCertificate,
    key_id: str,
    profile: SealProfile,
    refused: Refusal,
    given: Given,
) -> tuple[SealProfile, ...]:
    """The other dialects in which the request verifies.

    Nothing here proves a client id. So a keyId that names a certificate, or is refused for naming none, is not taken for one.
    """
    is_client_id = not (key_id.startswith("SN=") or refused.code.startswith("key-id."))
    rows = (
        row
        for row in PROFILES.values()
        if row.name != profile.name and (is_client_id or row.key_id.form is not KeyIdForm.CLIENT_ID)
    )
    return tuple(row for row in rows if refusal(message, certificate=certificate, profile=row, given=given) is None)


def coverage_faults(
    parameters: SignatureParameters,
    values: Mapping[str, str],
    doubled: Sequence[str],
    profile: SealProfile,
    *,
    has_body: bool,
) -> Iterator[Fault]:
    """What the dialect finds wrong with the covered headers."""
    demands = demands_of(profile)
    for name in dict.fromkeys(doubled):
        if name != demands.carrier and (name in demands.singletons or name.startswith(demands.prefixes)):
            yield fault("header-doubled", f"{name} stands more than once")
    digest = profile.digest_name
    if digest not in values and (digest in demands.sealing or has_body):
        yield fault("digest-missing", f"no {profile.digest_field} is among its headers")
    absent = [name for name in parameters.headers if name not in values]
    if absent:
        yield fault("covered-absent", ", ".join(absent)[:200])
    missing = _missing(demands, parameters.headers, values)
    unsent = [
        name for name in missing if name not in values and not name.startswith("(") and name != profile.digest_name
    ]
    if profile.request_id in unsent:
        yield fault("request-id-missing", f"no {profile.request_id} is among its headers")
    if set(unsent) - {profile.request_id}:
        yield fault("header-not-sent", ", ".join(sorted(set(unsent) - {profile.request_id})))
    uncovered = [name for name in missing if name in values or name.startswith("(")]
    if uncovered:
        yield Fault(UNCOVERED, f"{', '.join(uncovered)} (it covers {', '.join(parameters.headers)[:200]})")
    others = [
        name
        for name in parameters.headers
        if demands.allowed is not None and name not in demands.allowed and not name.startswith(demands.prefixes)
    ]
    if others:
        yield Fault(COVERED_TOO_MUCH, ", ".join(others)[:200])


def _missing(demands: Demands, covered: Sequence[str], values: Mapping[str, str]) -> list[str]:
    wanted = {*demands.covered, *demands.if_present.intersection(values)}
    wanted |= {name for name in values if demands.prefixes and name.startswith(demands.prefixes)}
    return sorted(wanted.difference(covered))


def key_id_faults(
    text: str, certificate: EidasCertificate, others: Sequence[EidasCertificate], profile: SealProfile
) -> Iterator[Fault]:
    """What is wrong with keyId: another dialect's spelling of this certificate, or the name of another."""
    error = _names(text, certificate, profile.key_id)
    if error is None:
        return
    spelled = _spelling(text, certificate)
    named = [other for other in others if _names(text, other, profile.key_id) is None]
    if spelled is not None:
        yield signing_fault("key-id-form", f"it is written {spelled}: {error.message}")
    elif named:
        yield signing_fault("key-id-other", f"it names {named[0].subject}, serial {named[0].serial:X}")
    else:
        yield signing_fault("key-id-form" if isinstance(error, FormatError) else "key-id-other", error.message)


def names_certificate(text: str, certificate: EidasCertificate) -> bool:
    """Whether a keyId names this certificate, however it is written."""
    return _spelling(text, certificate) is not None


def _spelling(text: str, certificate: EidasCertificate) -> str | None:
    """How a keyId that names this certificate is written; None where it does not."""
    return next((told for style, told in _SPELLINGS if _names(text, certificate, style) is None), None)


def _names(text: str, certificate: EidasCertificate, style: KeyIdStyle) -> FormatError | SignatureRejected | None:
    try:
        verify_key_id(text, certificate, style=style)
    except (FormatError, SignatureRejected) as e:
        return e
    return None


def algorithm_faults(name: str, certificate: EidasCertificate, profile: SealProfile) -> Iterator[Fault]:
    """What is wrong with the algorithm parameter."""
    try:
        names = profile.algorithms_of(key_kind(certificate.public_key))
    except FormatError as e:
        yield signing_fault("key-unusable", e.message)
        return
    if name in names or not name:  # one that is absent is a matter of the form
        return
    if not names:
        yield signing_fault("key-unusable", f"the dialect has no algorithm for {key_kind(certificate.public_key)}")
        return
    usual = " or ".join(names)
    row = "algorithm-other-key" if any(name == wire for wire, _ in profile.algorithms) else "algorithm-name"
    yield signing_fault(row, f"it says {name[:60]!r}; the dialect has {usual} for this key")


def meant_algorithm(
    name: str, certificate: EidasCertificate, profile: SealProfile, made: Made | None
) -> Algorithm | None:
    """What the algorithm parameter stands for: by the dialect, by its usual meaning, or else what was done if that is allowed."""
    try:
        names = profile.algorithms_of(key_kind(certificate.public_key))
    except FormatError:
        return None
    if name in names:
        return names[name]
    alias = ALGORITHMS.get(_ALIASES.get(name.lower(), name.lower()))
    if alias is not None and alias in names.values():
        return alias
    fitting = [row for row in names.values() if made is not None and _is_made_so(row, made)]
    return next(iter((*fitting, *names.values())), None)


def _is_made_so(row: Algorithm, made: Made) -> bool:
    scheme = {
        "PKCS#1": Scheme.PKCS1,
        "PSS": Scheme.PSS,
        "ECDSA, DER": Scheme.ECDSA_DER,
        "ECDSA, r and s bare": Scheme.ECDSA_RAW,
    }
    return scheme.get(made.scheme) is row.scheme and made.hash.replace("SHA-", "sha") == row.hash.name
