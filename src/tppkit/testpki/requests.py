"""Certificate signing requests: made as a qualified trust service provider expects them, checked, and certified.

A request that asks for something that its certificate would lack is rejected, and never changed.

Sources: RFC 2986 section 4 (PKCS #10), RFC 2985 section 5.4.2 (extensionRequest), ETSI TS 119 495 clause 5, ETSI EN 319 412-4
clause 4.1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from cryptography import x509

from tppkit._encoding import shown
from tppkit.certificates import EidasCertificate, ExtensionFacts, der, oids
from tppkit.certificates.certificate import EidasRequest
from tppkit.certificates.rules import check_key, check_statement, first_error
from tppkit.errors import ConfigurationError
from tppkit.testpki import profiles
from tppkit.testpki.certificate import (
    Attribute,
    Extension,
    attributes_of,
    extension_of,
    for_key,
    write_extensions,
    write_name,
)
from tppkit.testpki.keys import KEY_KINDS, SEAL_KEY_KINDS, PrivateKey, kind_of_public_key, public_key_der
from tppkit.testpki.pki import Pki, require_profile
from tppkit.testpki.provider import Provider, is_dns_name, provider_of
from tppkit.testpki.signing import sign_der

KINDS = ("qwac", "qseal")
_EXTENSION_REQUEST = "1.2.840.113549.1.9.14"
_TLS_KEYS = frozenset({"rsa", "ec"})
# Only the issuer knows the key identifiers, the addresses of its services and its policies.
_ISSUERS_OWN = frozenset({
    oids.SUBJECT_KEY_IDENTIFIER, oids.AUTHORITY_KEY_IDENTIFIER, oids.CRL_DISTRIBUTION_POINTS,
    oids.AUTHORITY_INFORMATION_ACCESS, oids.CERTIFICATE_POLICIES,
})  # fmt: skip
# What a request asks for, by its name in messages. A certificate has all of it or is not issued.
_FACTS: Mapping[str, Callable[[ExtensionFacts], tuple[str, ...]]] = {
    "the authority": lambda facts: (facts.qc.psd2.nca_id,) if facts.qc.psd2 else (),
    "the QcStatement": lambda facts: facts.qc.statement_oids,
    "the key usage": lambda facts: facts.key_usage,
    "the extended key usage": lambda facts: facts.extended_key_usage,
    "the policy": lambda facts: facts.policies,
    "the extension": lambda facts: tuple(sorted(facts.present)),
}


def make_request(provider: Provider, kind: str, key: PrivateKey, *, policy: str = "gen", qscd: bool = False) -> bytes:
    """Make a request for a provider's certificate, as DER.

    Args:
        provider: The provider that asks.
        kind: `qwac` or `qseal`.
        key: The private key that the certificate is for.
        policy: Policy of a QWAC, one of `profiles.QWAC_POLICIES`.
        qscd: Ask for a QSealC whose key is in a qualified device.

    Raises:
        ConfigurationError: `pki.key-kind`: no certificate of this kind may have such a key.
    """
    name, extensions = profiles.provider_profile(kind, provider, policy=policy, qscd=qscd, pds=())
    written = write_request(name, [extension_of(*extension) for extension in extensions], key)
    _require_profile_key(EidasRequest.from_der(written), kind)
    return written


def write_request(subject: tuple[Attribute, ...], extensions: Sequence[Extension], key: PrivateKey) -> bytes:
    """Write and sign a request, as DER.

    Args:
        subject: The requested name.
        extensions: The requested extensions; those that only the issuer knows are left out.
        key: The private key that the certificate is for.
    """
    wanted = write_extensions(e for e in extensions if e.oid not in _ISSUERS_OWN)
    requested = der.write_sequence(der.write_oid(_EXTENSION_REQUEST), der.write_element(der.SET, wanted))
    info = der.write_sequence(
        der.write_integer(0),
        write_name(subject),
        public_key_der(key),
        der.write_element(0xA0, requested),
    )
    return sign_der(info, key)


def kind_of(request: EidasRequest) -> str:
    """Return the requested kind of certificate, `qwac` or `qseal`, by the request's QcType.

    Raises:
        ConfigurationError: `pki.request`: the request does not state what it is for.
    """
    types = request.qc.types
    kind = {"web": "qwac", "eseal": "qseal"}.get(types[0]) if len(types) == 1 else None
    if kind is None:
        message = (
            "the request does not state by its QcType whether it is for a QWAC or a QSealC: make a new one (pki csr)"
        )
        raise ConfigurationError("pki.request", message)
    return kind


def asks_for_ev(request: EidasRequest) -> bool:
    """Return whether a request asks for a website certificate that browsers trust: by policy, extension or name."""
    asked = {*request.extensions.policies, *request.extensions.present}
    stated = {oid for rdn in request.subject.rdns for oid, _ in rdn}
    ev = {*profiles.QWAC_POLICIES["ev"], oids.CABF_ORGANIZATION_IDENTIFIER}
    return bool(asked & ev or stated & profiles.EV_ATTRIBUTES)


def certify_request(pki: Pki, request: EidasRequest, *, kind: str, label: str) -> EidasCertificate:
    """Issue the certificate that a request asks for, with the request's key, subject, roles and DNS names.

    Args:
        pki: The PKI, with the validity, policy and device statement that the certificate gets.
        request: The request.
        kind: `qwac` or `qseal`.
        label: Short name; with a seed, it determines the serial number.

    Raises:
        ConfigurationError: `pki.request`, `pki.key-kind`, `pki.foreign-key` (a member of the PKI has the key), `pki.dns-name`,
            `pki.profile`, and those of `make_provider`.
    """
    fault = first_error((*request.findings, *check_statement(request)))
    if fault is not None:
        message = f"the request is malformed: {fault.message}; make a new one (pki csr)"
        raise ConfigurationError("pki.request", message, clause=fault.clause)
    if request.organization_identifier is None:
        message = "the request has no organizationIdentifier: make a new one (pki csr)"
        raise ConfigurationError("pki.organization-identifier", message)
    provider = provider_of(request)
    known = {issued.label: issued.key for issued in pki.issued} | dict(pki.callback_keys)
    subject = _require_subject(request)
    _require_new_key(request, kind, known)
    draft = pki.draft(kind, provider, label=label, key="p256").draft  # a key that is quickly made, and not kept
    draft = replace(for_key(draft, request.public_key), subject=subject)
    if kind == "qwac":
        draft = draft.with_extension(extension_of(_require_names(request), False))
    certificate = EidasCertificate.from_der(draft.sign(pki.issuer_of(kind).key))
    require_profile(certificate, kind)
    _require_complete(request, certificate)
    return certificate


def _require_subject(request: EidasRequest) -> tuple[Attribute, ...]:
    """Return the requested name, each attribute with the string type that RFC 5280 prescribes."""
    subject = attributes_of(request.subject)
    for _, text, tag in subject:
        if not text.isprintable() or not (tag == der.UTF8_STRING or text.isascii()):
            message = "the subject has characters that a name may not have: make a new request"
            raise ConfigurationError("pki.request", message)
    return subject


def _require_names(request: EidasRequest) -> x509.SubjectAlternativeName:
    """Return the alternative names of a QWAC, all of which are DNS names."""
    names = request.extensions.dns_names
    for text in names:
        if not is_dns_name(text):
            message = f"{shown(text)} is not a DNS name in lower case, without underscores: make a new request (pki csr --dns)"
            raise ConfigurationError("pki.dns-name", message)
    asked = x509.SubjectAlternativeName([x509.DNSName(name) for name in names])
    if not names or request.extension_values[oids.SUBJECT_ALTERNATIVE_NAME] != asked.public_bytes():
        message = (
            "the alternative names of the request are not one or more DNS names: make a new request (pki csr --dns)"
        )
        raise ConfigurationError("pki.request", message)
    return asked


def _require_complete(request: EidasRequest, certificate: EidasCertificate) -> None:
    """Require that the certificate has everything that the request asks for."""
    for what, read in _FACTS.items():
        lacking = [value for value in read(request.extensions) if value not in read(certificate.extensions)]
        if lacking:
            message = f"the request asks for {what} {shown(lacking[0])}, which its certificate would lack"
            raise ConfigurationError("pki.request", f"{message}: make a new request (pki csr)")


def _require_profile_key(request: EidasRequest, kind: str) -> None:
    """Require a key that the profiles of the kind allow."""
    for fault in check_key(request):
        raise ConfigurationError("pki.key-kind", f"{fault.message} ({fault.clause})", clause=fault.clause)
    if kind == "qwac" and request.key.type not in _TLS_KEYS:
        clause = "BR section 6.1.5"
        message = f"a website certificate has no key of the type {request.key.type} ({clause})"
        raise ConfigurationError("pki.key-kind", message, clause=clause)


def _require_new_key(request: EidasRequest, kind: str, known: Mapping[str, PrivateKey]) -> None:
    """Require a key that this PKI certifies, and that is none of the `known` keys."""
    key, kinds = request.public_key, SEAL_KEY_KINDS if kind == "qseal" else KEY_KINDS
    _require_profile_key(request, kind)
    if kind_of_public_key(key) not in kinds:
        what = f"{request.key.type}, {request.key.bits or request.key.curve}"
        raise ConfigurationError("pki.key-kind", f"the request's key ({what}) is not one of {', '.join(kinds)}")
    owner = next((label for label, other in known.items() if other.public_key() == key), None)
    if owner is not None:
        message = f"the request has the key of {owner}: make a key for this request"
        raise ConfigurationError("pki.foreign-key", message)
