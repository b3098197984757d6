"""Certificate signing requests as a qualified trust service provider expects them.

Sources: RFC 2986 section 4 (PKCS #10), RFC 2985 section 5.4.2 (extensionRequest), ETSI TS 119 495 clause 5.
"""

from __future__ import annotations

from collections.abc import Sequence

from tppkit._encoding import shown
from tppkit.certificates import DistinguishedName, EidasRequest, der, oids
from tppkit.certificates.general_names import GeneralName, read_general_names
from tppkit.certificates.rules import check_key
from tppkit.errors import ConfigurationError, FormatError
from tppkit.testpki import profiles
from tppkit.testpki.draft import (
    Attribute,
    Extension,
    attributes_of,
    extension_of,
    write_extensions,
    write_name,
)
from tppkit.testpki.keys import PrivateKey, public_key_der
from tppkit.testpki.provider import Provider, is_dns_name
from tppkit.testpki.signing import sign_der

KINDS = ("qwac", "qseal")
_TLS_KEYS = frozenset({"rsa", "ec"})
_EXTENSION_REQUEST = "1.2.840.113549.1.9.14"
# What only the issuer can know: key identifiers, addresses of its services, its policies.
ISSUERS_OWN = frozenset({
    oids.SUBJECT_KEY_IDENTIFIER, oids.AUTHORITY_KEY_IDENTIFIER, oids.CRL_DISTRIBUTION_POINTS,
    oids.AUTHORITY_INFORMATION_ACCESS, oids.CERTIFICATE_POLICIES,
})  # fmt: skip


def make_request(provider: Provider, kind: str, key: PrivateKey, *, policy: str = "gen", qscd: bool = False) -> bytes:
    """DER of a request for a provider's certificate.

    Args:
        provider: who asks.
        kind: `qwac` or `qseal`.
        key: the private key that the certificate is for.
        policy: of a QWAC, one of `profiles.QWAC_POLICIES`.
        qscd: ask for a QSealC whose key is in a qualified device.

    Raises:
        ConfigurationError: `pki.key-kind`: no certificate of the kind has such a key.
    """
    if kind == "qwac":
        name, extensions = (
            profiles.qwac_name(provider, policy=policy),
            profiles.qwac_extensions(provider, policy=policy, pds=()),
        )
    else:
        name = profiles.provider_name(provider, provider.name)
        extensions = profiles.qseal_extensions(provider, qscd=qscd, pds=())
    written = write_request(name, [extension_of(*extension) for extension in extensions], key)
    require_profile_key(EidasRequest.from_der(written), kind=kind)
    return written


def write_request(subject: tuple[Attribute, ...], extensions: Sequence[Extension], key: PrivateKey) -> bytes:
    """DER of a request, signed.

    Args:
        subject: the name asked for.
        extensions: those asked for; what only the issuer can know is left out.
        key: the private key that the certificate is for.
    """
    wanted = write_extensions(e for e in extensions if e.oid not in ISSUERS_OWN)
    attribute = der.write_element(der.SEQUENCE, der.write_oid(_EXTENSION_REQUEST), der.write_element(der.SET, wanted))
    info = der.write_element(
        der.SEQUENCE,
        der.write_integer(0),
        write_name(subject),
        public_key_der(key),
        der.write_element(0xA0, attribute),
    )
    return sign_der(info, key)


def kind_of(request: EidasRequest) -> str:
    """`qwac` or `qseal`: by the QcType, else by what the key is for, else by the subject alternative name.

    Raises:
        ConfigurationError: `pki.request`: the request does not say.
    """
    known, typed = request.extensions, kind_of_type(request)
    if typed is not None:
        return typed
    if "clientAuth" in known.extended_key_usage or known.dns_names:
        return "qwac"
    if "nonRepudiation" in known.key_usage:
        return "qseal"
    raise ConfigurationError(
        "pki.request",
        "the request does not say whether it is for a QWAC or a QSealC: say it (pki csr --repair --kind, pki issue csr --as)",
    )


def kind_of_type(request: EidasRequest) -> str | None:
    """`qwac` or `qseal` by the QcType; None where it does not say one of them."""
    return {"web": "qwac", "eseal": "qseal"}.get(request.qc.types[0]) if len(request.qc.types) == 1 else None


def requested_subject(request: EidasRequest) -> tuple[Attribute, ...]:
    """The name asked for, each attribute with the string type that RFC 5280 wants for it.

    Raises:
        ConfigurationError: `pki.request`: a text that no name has, or a country that is not two letters.
    """
    require_country_code(request.subject)
    return require_writable(attributes_of(request.subject))


def require_writable(subject: tuple[Attribute, ...]) -> tuple[Attribute, ...]:
    """The attributes, when a name can have their texts.

    Raises:
        ConfigurationError: `pki.request`.
    """
    for _, text, tag in subject:
        if not text.isprintable() or not (tag == der.UTF8_STRING or text.isascii()):
            raise ConfigurationError("pki.request", "the subject has characters that no name has: make a new request")
    return subject


def require_country_code(subject: DistinguishedName) -> None:
    """Require two letters of each country.

    Raises:
        ConfigurationError: `pki.request`.
    """
    for country in subject.values(oids.COUNTRY):
        if len(country) != 2:
            clause = "EN 319 412-3 LEG-4.2.1-4"
            message = f"the country {shown(country)} is not two letters ({clause}): say it (pki csr --repair --country)"
            raise ConfigurationError("pki.request", message, clause=clause)


def alternative_names(request: EidasRequest) -> tuple[GeneralName, ...]:
    """Every subject alternative name that is asked for, of whatever form; none where they cannot be read."""
    try:
        return read_general_names(request.extension_values[oids.SUBJECT_ALTERNATIVE_NAME])
    except (FormatError, KeyError):
        return ()


def named_host(request: EidasRequest) -> tuple[str, ...]:
    """The common name of a request, when it is one DNS name: it stands for the alternative names of one that has none."""
    return tuple(name for name in request.subject.values(oids.COMMON_NAME)[:1] if is_dns_name(name))


def require_common_name(subject: DistinguishedName, dns_names: Sequence[str], *, kind: str) -> None:
    """Require of a QWAC that each common name is one of its DNS names.

    Args:
        subject: the name asked for.
        dns_names: the DNS names of the certificate.
        kind: `qwac` or `qseal`.

    Raises:
        ConfigurationError: `pki.request`.
    """
    odd = [name for name in subject.values(oids.COMMON_NAME) if name not in dns_names]
    if kind == "qwac" and odd:
        clause = "EN 319 412-4 WEB-4.1.3-4 (d)"
        message = f"the common name {shown(odd[0])} is none of the DNS names ({shown(', '.join(dns_names)) or 'none'})"
        raise ConfigurationError("pki.request", f"{message}: name it (pki csr --repair --dns; {clause})", clause=clause)


def require_profile_key(request: EidasRequest, *, kind: str) -> None:
    """Require a key that a profile of the kind allows.

    Args:
        request: the request.
        kind: `qwac` or `qseal`.

    Raises:
        ConfigurationError: `pki.key-kind`.
    """
    for fault in check_key(request):
        raise ConfigurationError("pki.key-kind", f"{fault.message} ({fault.clause})", clause=fault.clause)
    if kind == "qwac" and request.key.type not in _TLS_KEYS:
        clause = "BR section 6.1.5"
        message = f"a key of the type {request.key.type} is none of a website certificate ({clause})"
        raise ConfigurationError("pki.key-kind", message, clause=clause)
