"""The known dialects of sealing of banks and gateways.

`psd2-v1` is of the PSD2 document, `berlin-group` follows the guidelines exactly, `cavage-12` is the last draft, with times. If the
source of another dialect leaves a value open, it is the guidelines' value and is listed in `assumed`. A bank may have changed its
dialect since: derive your own with `dataclasses.replace`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from types import MappingProxyType

from tppkit.httpsig.cavage import CREATED, EXPIRES
from tppkit.seals.certificate_header import CertificateForm
from tppkit.seals.key_id import KeyIdForm, KeyIdStyle, Radix
from tppkit.seals.profile import BERLIN_GROUP_ALGORITHMS, EmptyBody, Format, Order, SealProfile

_TARGET = "(request-target)"
_READ = "undated, read in 2026"
_DIGESTS = ("SHA-256", "SHA-512")
_GUIDELINES = "NextGenPSD2 Implementation Guidelines 1.3.8 section 12"
_RSA = (("rsa-sha256", "rsa-sha256"), ("rsa-sha512", "rsa-sha512"))
_JCA = (
    ("SHA256withRSA", "rsa-sha256"), ("SHA512withRSA", "rsa-sha512"), ("SHA256withECDSA", "ecdsa-sha256"),
)  # fmt: skip
_HS2019 = (("hs2019", "rsa-pss-sha512"), ("hs2019", "ecdsa-p256-sha512"), ("hs2019", "ed25519"))

PSD2_V1 = SealProfile(
    name="psd2-v1",
    covered=("digest", "x-request-id", _TARGET),
    digest_required=True,
    algorithms=(*BERLIN_GROUP_ALGORITHMS, ("ecdsa-sha384", "ecdsa-sha384")),
    source="PSD2 document, part A sections 4 (payment initiation headers) and 5 rule 4",
    assumed="the form of keyId and the names of the algorithms (assumptions `key-id` and `signature-algorithms`)",
)

BERLIN_GROUP = SealProfile(
    name="berlin-group",
    covered=("digest", "x-request-id"),
    covered_if_present=("psu-id", "psu-corporate-id", "tpp-redirect-uri"),
    only_these=True,
    digest_algorithms=_DIGESTS,
    source=_GUIDELINES,
    as_of="2020-10-30",
    assumed="that ecdsa-sha256 is the name for P-256 keys",
)

CAVAGE_12 = SealProfile(
    name="cavage-12",
    covered=(_TARGET, CREATED, EXPIRES, "digest", "x-request-id"),
    algorithms=_HS2019,
    expires_after=timedelta(minutes=5),
    source="draft-cavage-http-signatures-12; hs2019 on RSA keys is RSASSA-PSS with SHA-512, as its registry has it",
    as_of="2019-10-21",
    assumed=(
        "digest and x-request-id are covered; keyId, certificate header, digest algorithm, digest "
        "without body; five minutes"
    ),
)

_BANKS = (
    SealProfile(
        name="adorsys",
        covered=("date", "digest", "x-request-id"),
        covered_if_present=("psu-corporate-id", "psu-id", "tpp-redirect-uri"),
        order=Order.SORTED,
        algorithms=BERLIN_GROUP_ALGORITHMS + _JCA,
        key_id=KeyIdStyle(radix=Radix.LOWER, drops_newlines=True),
        source="adorsys/xs2a psd2-certificate-validator at 7ce8fe2; adorsys/xs2a-adapter",
        as_of="2024-02-22",
        assumed="certificate header, ecdsa-sha256 and SHA256withECDSA, digest algorithm, digest without body",
    ),
    SealProfile(
        name="wso2",
        covered=("digest", "x-request-id", "date"),
        covered_if_present=("psu-*", "tpp-redirect-uri"),
        only_these=True,
        empty_body=EmptyBody.BRACES,
        key_id=KeyIdStyle(radix=Radix.LOWER, percent=False),
        signature_quoted=False,
        source="wso2/reference-implementation-nextgenpsd2",
        as_of="2025-01-23",
        assumed=(
            "certificate header, algorithms, digest algorithm; that Date and every psu-* field are demanded "
            "(the source checks digest, x-request-id, psu-id, psu-corporate-id and tpp-redirect-uri only)"
        ),
    ),
    SealProfile(
        name="ing",
        covered=(_TARGET, "date", "digest"),
        covered_if_present=("x-ing-reqid",),
        request_id="x-ing-reqid",
        algorithms=_RSA,
        key_id=KeyIdStyle(form=KeyIdForm.CLIENT_ID),
        certificate_header=None,
        source="ING open-banking-cli, scripts/bash/psd2_02_RequestAuthorizationURL.sh; adorsys/xs2a-adapter",
        as_of="2025-09",
        assumed="that only RSA is taken, rsa-sha512",
    ),
    SealProfile(
        name="rabobank",
        covered=("date", "digest", "x-request-id"),
        covered_if_present=("tpp-redirect-uri",),
        digest_algorithm="sha-512",
        digest_algorithms=("sha-512",),
        algorithms=(("rsa-sha512", "rsa-sha512"),),
        key_id=KeyIdStyle(form=KeyIdForm.SERIAL, radix=Radix.DECIMAL),
        source="Rabobank's documentation for developers",
        as_of=_READ,
        assumed="certificate header, digest without body, that the serial stands alone",
    ),
    SealProfile(
        name="bng",
        covered=(_TARGET, "date", "digest"),
        request_id=None,
        certificate_form=CertificateForm.PEM,
        source="BNG Bank's documentation for developers",
        as_of=_READ,
        assumed="keyId, algorithms, digest algorithm, digest without body",
    ),
    SealProfile(
        name="stet",
        covered=(_TARGET, "digest", "x-request-id"),
        covered_if_present=("content-type", "content-length", "psu-*"),
        key_id=KeyIdStyle(form=KeyIdForm.URL),
        certificate_header=None,
        source="STET's PSD2 interface, as Qonto has it",
        as_of=_READ,
        assumed=(
            "x-request-id is covered, so that a seal is of one request; algorithms, digest algorithm, digest"
            " without body"
        ),
    ),
    replace(
        BERLIN_GROUP, name="triodos", covered_if_present=(), only_these=False,
        source="Triodos Bank's documentation for developers", as_of=_READ, assumed="all but the covered fields",
    ),
    replace(
        BERLIN_GROUP, name="meo", certificate_header="TPP-Signing-Certificate",
        source="MEO Wallet's documentation for developers", as_of=_READ, assumed="all but the certificate's header",
    ),
    SealProfile(
        name="chebanca",
        covered=(_TARGET, "tpp-request-id", "date", "digest"),
        request_id="tpp-request-id",
        empty_body=EmptyBody.ABSENT,
        key_id=KeyIdStyle(form=KeyIdForm.CLIENT_ID),
        source="CheBanca's documentation for developers",
        as_of=_READ,
        assumed="certificate header, algorithms, digest algorithm; that a request without body has no Digest",
    ),
    replace(
        BERLIN_GROUP, name="samlink", covered=("Digest", "X-Request-ID"), covered_if_present=("TPP-Redirect-URI",),
        source="Samlink's documentation for developers", as_of=_READ,
        assumed=(
            "keyId, algorithms, certificate header, digest algorithm, that nothing else may be covered"
        ),
    ),
    replace(
        BERLIN_GROUP, name="redsys", covered_if_present=("tpp-redirect-uri",), algorithms=(("SHA-256", "rsa-sha256"),),
        source="Redsys' documentation for developers", as_of=_READ,
        assumed=(
            "keyId, certificate header, digest algorithm, that nothing else may be covered; that SHA-256 "
            "means RSA PKCS#1"
        ),
    ),
    replace(
        BERLIN_GROUP, name="salt-edge", certificate_form=CertificateForm.BASE64_PEM,
        source="Salt Edge's documentation for developers", as_of=_READ, assumed="all but the certificate's form",
    ),
)  # fmt: skip

# Seals in other formats than draft-cavage.
_OTHER_FORMATS = (
    SealProfile(
        name="amazon",
        format=Format.RFC9421,
        label="x-amzn-psd2",
        covered=("@method", "@query", "x-amz-access-token", "x-amzn-content-digest"),
        request_id=None,
        digest_field="x-amzn-content-digest",
        digest_algorithm="sha-256",
        key_id=KeyIdStyle(form=KeyIdForm.CLIENT_ID),
        certificate_header=None,
        max_age=timedelta(minutes=5),
        source="Amazon Selling Partner API, third-party provider signature guidance and FAQ",
        as_of="2026",
        assumed=(
            "keyid; that alg is always there; that x-amzn-content-digest is written as Content-Digest is; "
            "that all algorithms of RFC 9421 are taken; the age of five minutes"
        ),
    ),
    SealProfile(
        name="open-finance",
        format=Format.JWS,
        carrier="x-jws-signature",
        covered=(_TARGET, "digest", "x-request-id"),
        covered_if_present=("psu-id", "psu-corporate-id", "tpp-redirect-uri"),
        key_id=KeyIdStyle(form=KeyIdForm.THUMBPRINT),
        certificate_header=None,
        sends_x5c=True,
        max_age=timedelta(minutes=5),
        source="Open Banking Europe, JSON Web Signature Profile for Open Banking 001-001; ETSI TS 119 182-1 clause 5.2.8.2",
        as_of="2021-05-18",
        assumed=(
            "the covered fields, taken from the Berlin Group's guidelines with the target; that the hash of "
            "the body is in Digest, and its algorithm; that x5t#S256 is demanded; the age"
        ),
    ),
    SealProfile(
        name="ing-jws",
        format=Format.JWS,
        carrier="x-jws-signature",
        covered=(_TARGET, "content-type", "digest"),
        request_id=None,
        algorithms=(("PS256", "rsa-pss-sha256"),),
        key_id=KeyIdStyle(form=KeyIdForm.THUMBPRINT),
        certificate_header=None,
        max_age=timedelta(minutes=5),
        source="ing-bank/ing-open-banking-cli at c48302c, scripts/bash/premium_01_Showcase_jws.sh",
        as_of="2025-09-02",
        assumed="the age; digest algorithm, that the digest is in Digest; that x5t#S256 is demanded",
    ),
)
# The token request names and contains the certificate. Its response has the client id that later requests use as keyId.
_ING_TOKEN = replace(
    next(row for row in _BANKS if row.name == "ing"), name="ing-token", carrier="Authorization",
    key_id=KeyIdStyle(issuer_optional=True),
    certificate_header="TPP-Signature-Certificate", certificate_form=CertificateForm.PEM,
    source="ING open-banking-cli, scripts/bash/psd2_01_RequestApplicationToken.sh; adorsys/xs2a-adapter",
    assumed="that only RSA is taken, rsa-sha512, hexadecimal serial, that an issuer may follow it",
)  # fmt: skip

PROFILES: Mapping[str, SealProfile] = MappingProxyType(
    {row.name: row for row in (PSD2_V1, BERLIN_GROUP, CAVAGE_12, *_BANKS, _ING_TOKEN, *_OTHER_FORMATS)}
)
