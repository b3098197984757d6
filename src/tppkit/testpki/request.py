"""Certificate signing requests as a qualified trust service provider expects them: made, and mended.

Sources: RFC 2986 section 4 (PKCS #10), RFC 2985 section 5.4.2 (extensionRequest), ETSI TS 119 495 clause 5.
"""

from __future__ import annotations

from collections.abc import Sequence

from cryptography import x509

from tppkit.certificates import EidasRequest, Psd2Statement, RoleOfPsp, der, oids
from tppkit.certificates.write_qcstatements import write_qc_statements
from tppkit.errors import ConfigurationError, Severity
from tppkit.testpki import profiles
from tppkit.testpki.draft import (
    Attribute,
    Extension,
    attribute_of,
    attributes_of,
    extension_of,
    write_extension,
    write_name,
)
from tppkit.testpki.issued import Drafted
from tppkit.testpki.keys import PrivateKey
from tppkit.testpki.provider import Provider, is_dns_name, provider_of
from tppkit.testpki.signing import sign_der

KINDS = ("qwac", "qseal")
_EXTENSION_REQUEST = "1.2.840.113549.1.9.14"
# What only the issuer can know: key identifiers, addresses of its services, its policies.
_ISSUERS_OWN = frozenset({
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
    """
    if kind == "qwac":
        name, extensions = (
            profiles.qwac_name(provider, policy=policy),
            profiles.qwac_extensions(provider, policy=policy),
        )
    else:
        name = profiles.provider_name(provider, provider.name)
        extensions = profiles.qseal_extensions(provider, qscd=qscd)
    return write_request(name, [extension_of(*extension) for extension in extensions], key)


def write_request(subject: tuple[Attribute, ...], extensions: Sequence[Extension], key: PrivateKey) -> bytes:
    """DER of a request, signed.

    Args:
        subject: the name asked for.
        extensions: those asked for; what only the issuer can know is left out.
        key: the private key that the certificate is for.
    """
    wanted = der.write_element(der.SEQUENCE, *(write_extension(e) for e in extensions if e.oid not in _ISSUERS_OWN))
    attribute = der.write_element(der.SEQUENCE, der.write_oid(_EXTENSION_REQUEST), der.write_element(der.SET, wanted))
    info = der.write_element(
        der.SEQUENCE,
        der.write_integer(0),
        write_name(subject),
        Drafted.public_key_of(key),
        der.write_element(0xA0, attribute),
    )
    return sign_der(info, key)


def repaired_extensions(request: EidasRequest, *, kind: str | None = None) -> list[Extension]:
    """The extensions that a malformed request meant, written as they should be.

    The roles are those that could be read by their identifiers, with their standard names; what is absent is taken from the
    profile of the certificate's kind.

    Args:
        request: the malformed one.
        kind: `qwac` or `qseal`; what the request says by default.

    Raises:
        ConfigurationError: `pki.request`: no role, no type or no authority can be read from it.
    """
    qc, known = request.qc, request.extensions
    roles = tuple(
        RoleOfPsp(role.oid, oids.PSP_ROLES[role.oid])
        for role in (qc.psd2.roles if qc.psd2 else ())
        if role.oid in oids.PSP_ROLES
    )
    if qc.psd2 is None or not roles or not qc.psd2.nca_id:
        raise ConfigurationError(
            "pki.request", "no role, or no authority, can be read from the request: make a new one"
        )
    kind = kind or kind_of(request)
    statements = write_qc_statements(
        qc_type="web" if kind == "qwac" else "eseal",
        psd2=Psd2Statement(
            tuple(dict.fromkeys(roles)), qc.psd2.nca_name or f"Competent authority {qc.psd2.nca_id}", qc.psd2.nca_id
        ),
        pds=tuple(place for place in qc.pds if place.url.isascii() and place.language.isascii()),
        sscd=qc.sscd and kind == "qseal",
    )
    found = [extension_of(*profiles.key_usage("digital_signature" if kind == "qwac" else "content_commitment"))]
    if kind == "qwac":
        usages = x509.ExtendedKeyUsage(
            [x509.oid.ExtendedKeyUsageOID.SERVER_AUTH, x509.oid.ExtendedKeyUsageOID.CLIENT_AUTH]
        )
        wanted = known.dns_names or request.subject.values(oids.COMMON_NAME)[:1]
        names = [x509.DNSName(name) for name in wanted if is_dns_name(name)]
        found.append(extension_of(usages, False))
        found += [extension_of(x509.SubjectAlternativeName(names), False)] if names else []
    return [*found, Extension(oids.QC_STATEMENTS, statements)]


def kind_of(request: EidasRequest) -> str:
    """`qwac` or `qseal`: by the QcType, else by what the key is for, else by the subject alternative name.

    Raises:
        ConfigurationError: `pki.request`: the request does not say.
    """
    known = request.extensions
    if request.qc.types in (("web",), ("eseal",)):
        return "qwac" if request.qc.types == ("web",) else "qseal"
    if "clientAuth" in known.extended_key_usage or known.dns_names:
        return "qwac"
    if "nonRepudiation" in known.key_usage:
        return "qseal"
    raise ConfigurationError("pki.request", "the request does not say whether it is for a QWAC or a QSealC: say it")


def repair_request(request: EidasRequest, key: PrivateKey, *, kind: str | None = None) -> bytes:
    """DER of the request as it should be, signed with the same key; `kind` as for `repaired_extensions`.

    Raises:
        ConfigurationError: `pki.request`; `pki.foreign-key`, the key is not the request's.
    """
    if key.public_key() != request.public_key:
        raise ConfigurationError("pki.foreign-key", "the key is not the one that the request is for")
    return write_request(_subject_of(request), repaired_extensions(request, kind=kind), key)


def _subject_of(request: EidasRequest) -> tuple[Attribute, ...]:
    for oid, value in (attribute for rdn in request.subject.rdns for attribute in rdn):
        if not value.isprintable() or (attribute_of(oid, value).tag == der.PRINTABLE_STRING and not value.isascii()):
            raise ConfigurationError("pki.request", "the subject has characters that no name has: make a new request")
        if oid == oids.COUNTRY and len(value) != 2:
            raise ConfigurationError(
                "pki.request", f"the country {value[:80]!r} is not two letters: make a new request"
            )
    return attributes_of(request.subject)


def openssl_config(request: EidasRequest, *, kind: str | None = None) -> str:
    """An OpenSSL configuration with which the holder of the key makes the request as it should be.

    Use: `openssl req -new -config FILE -key KEY -out NEW.csr`. `kind` as for `repaired_extensions`.

    Raises:
        ConfigurationError: `pki.request`.
    """
    extensions = repaired_extensions(request, kind=kind)
    subject = "\n".join(
        f"{number}.{_OPENSSL_NAMES.get(oid, oid)} = {_config_value(text)}"
        for number, (oid, text, _) in enumerate(_subject_of(request))
    )
    wanted = "\n".join(f"{e.oid} = {'critical, ' if e.critical else ''}DER:{e.value.hex()}" for e in extensions)
    return _CONFIG.format(subject=subject, extensions=wanted)


def _config_value(text: str) -> str:
    for special in "\\$#\"'":
        text = text.replace(special, f"\\{special}")
    return text


_OPENSSL_NAMES = {"2.5.4.97": "organizationIdentifier"} | {
    oid: name for oid, name in oids.NAME_ATTRIBUTES.items() if name in ("C", "O", "OU", "CN", "L", "ST")
}
_CONFIG = """# openssl req -new -config THIS_FILE -key YOUR.key -out NEW.csr
[ req ]
prompt = no
utf8 = yes
string_mask = utf8only
distinguished_name = subject
req_extensions = extensions

[ subject ]
{subject}

[ extensions ]
{extensions}
"""


def provider_of_request(request: EidasRequest) -> Provider:
    """The provider that asks.

    Raises:
        ConfigurationError: as `make_provider`; `pki.request`, the request is malformed.
    """
    faults = [finding for finding in request.findings if finding.severity is Severity.ERROR]
    if faults:
        raise ConfigurationError(
            "pki.request", f"the request is malformed, mend it first (pki csr --repair): {faults[0].message}"
        )
    return provider_of(request)
