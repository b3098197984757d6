"""Every stable code: what it means and what to do. One row a code; a test compares this table with the source."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple


class Code(NamedTuple):
    """One row: what the code means, and what mends it."""

    meaning: str
    mend: str


CODES: Mapping[str, Code] = MappingProxyType(
    {
        "answer.redirect": Code(
            "the bank answered a request with a redirect",
            "check the base address; sealed requests are never sent elsewhere",
        ),
        "answer.request-id": Code(
            "the answer does not echo the request's X-Request-ID",
            "report it to the bank; do not act on the answer",
        ),
        "answer.status": Code(
            "the answer has an unexpected success status",
            "check the bank's version of the interface",
        ),
        "answer.too-large": Code(
            "the answer is longer than is read",
            "report it to the bank",
        ),
        "archive.damaged": Code(
            "the archive's last record cannot be read, so nothing can be chained to it",
            "audit the archive and start a new one; keep the damaged one",
        ),
        "archive.locked": Code(
            "another process writes to the archive",
            "stop the other writer, or use another archive",
        ),
        "archive.unreadable": Code(
            "the archive's records cannot be opened",
            "check the path and its permissions",
        ),
        "archive.unusable": Code(
            "the archive cannot be written",
            "check disk space and permissions; nothing that was stored is changed",
        ),
        "authority.unknown": Code(
            "the competent authority is not in the informative list",
            "nothing, if the authority exists; the list binds nobody",
        ),
        "base64.malformed": Code(
            "the text is not base64",
            "encode with the standard alphabet, padded, on one line",
        ),
        "base64.noncanonical": Code(
            "the base64 has stray bits or lacks padding",
            "encode canonically (RFC 4648 section 4)",
        ),
        "certificate.authority-extension": Code(
            "the certificate has an extension that only authorities may have",
            "ask the issuer for a certificate without it",
        ),
        "certificate.broken-signature": Code(
            "the certificate is signed with MD2, MD5 or SHA-1",
            "ask the issuer for one signed with SHA-256 or better",
        ),
        "certificate.client-auth-ends": Code(
            "a publicly trusted QWAC has clientAuth; its successor will not: Chrome's root program ends it in 2026",
            "before it expires, order a QWAC under QNCP-w-gen from a qualified hierarchy that browsers do not hold, and tell the banks",
        ),
        "certificate.common-name": Code(
            "the common name of a website certificate is none of its DNS names",
            "ask the issuer for a certificate whose common name is one of them",
        ),
        "certificate.critical-extension": Code(
            "a critical extension is one that this software does not process",
            "have the certificate issued without it",
        ),
        "certificate.crl-scheme": Code(
            "no CRL address begins with http:// or ldap://",
            "ask the issuer for a certificate with such an address",
        ),
        "certificate.expired": Code(
            "the certificate was no longer valid at the time",
            "renew it, or judge a kept request at its time of receipt",
        ),
        "certificate.extended-key-usage": Code(
            "the seal's extended key usage allows other work only",
            "use a seal certificate without extended key usage, or with one for documents",
        ),
        "certificate.extension-malformed": Code(
            "an extension is not as RFC 5280 has it",
            "have the certificate issued again",
        ),
        "certificate.internal-address": Code(
            "issuer, OCSP or CRL are at an address of one network only",
            "ask the issuer for a certificate with public addresses",
        ),
        "certificate.internal-name": Code(
            "a website certificate names an address, or a host of one network only",
            "ask the issuer for a certificate for public DNS names",
        ),
        "certificate.is-ca": Code(
            "a certification authority's certificate stands where a provider's belongs",
            "present the end-entity certificate",
        ),
        "certificate.key-unreadable": Code(
            "the certificate's public key cannot be read",
            "use RSA or an elliptic curve key",
        ),
        "certificate.key-usage": Code(
            "the key usage does not allow this use",
            "ask the trust service provider for the right profile",
        ),
        "certificate.key-usage-authentication": Code(
            "the seal's key usage is for authentication, not for commitment to content",
            "prefer a seal with nonRepudiation (type A) where evidence matters",
        ),
        "certificate.key-usage-missing": Code(
            "the certificate has no key usage",
            "ask the issuer for a certificate with digitalSignature",
        ),
        "certificate.key-usage-mixed": Code(
            "the key usage is of type B, D or F: one key for several things",
            "prefer type A for seals and C for websites when the certificate is renewed",
        ),
        "certificate.key-usage-not-critical": Code(
            "the key usage is not critical",
            "ask the issuer to mark it critical",
        ),
        "certificate.key-usage-type": Code(
            "the key usage is none of the types A to F",
            "ask the issuer for a certificate with one of the types of EN 319 412-2",
        ),
        "certificate.malformed": Code(
            "the bytes are not a certificate or certificate request",
            "check that the file is complete and the right one",
        ),
        "certificate.missing": Code(
            "the TLS connection carries no client certificate",
            "open the connection with the QWAC and its key",
        ),
        "certificate.must-not-be-critical": Code(
            "an extension is critical that may not be",
            "ask the issuer for a certificate where it is not",
        ),
        "certificate.no-authority-key": Code(
            "the certificate has no authority key identifier",
            "ask the issuer for a certificate with one",
        ),
        "certificate.no-client-auth": Code(
            "the QWAC lacks the clientAuth extended key usage",
            "order a QWAC under QNCP-w-gen from a qualified hierarchy that browsers do not hold; publicly trusted ones lose clientAuth",
        ),
        "certificate.no-dns-name": Code(
            "a website certificate names no website",
            "ask the issuer for a certificate with a dNSName",
        ),
        "certificate.no-information-access": Code(
            "the certificate has no authority information access",
            "ask the issuer for a certificate with caIssuers and OCSP addresses",
        ),
        "certificate.no-issuer-location": Code(
            "no http address of the issuer's certificate is stated",
            "ask the issuer for a certificate with one; until then send the chain yourself",
        ),
        "certificate.no-policy": Code(
            "the certificate names no policy",
            "ask the issuer for a certificate with a policy of EN 319 411-2",
        ),
        "certificate.no-qualified-policy": Code(
            "none of the policies is one of EN 319 411-2",
            "ask the issuer for QNCP-w-gen (QWAC) or QCP-l (seal) beside its own",
        ),
        "certificate.no-server-auth": Code(
            "the extended key usage has no serverAuth",
            "use a QWAC with serverAuth and clientAuth",
        ),
        "certificate.no-status-location": Code(
            "neither a CRL nor an OCSP responder over http is named",
            "ask the issuer for a certificate that says where its status is",
        ),
        "certificate.no-subject-key": Code(
            "the certificate has no subject key identifier",
            "ask the issuer for a certificate with one",
        ),
        "certificate.not-found": Code(
            "no certificate stands in the input",
            "pass PEM, DER, base64, a proxy header's value or PKCS#12",
        ),
        "certificate.not-yet-valid": Code(
            "the certificate was not valid yet at the time",
            "check the clock, or wait",
        ),
        "certificate.policy-mismatch": Code(
            "a policy of EN 319 411-2 is for another kind of certificate",
            "ask the issuer for a web policy in a QWAC and for QCP-l in a seal",
        ),
        "certificate.precertificate": Code(
            "it is a pre-certificate, made for a transparency log",
            "use the certificate that the issuer made of it",
        ),
        "certificate.psd2-policy-on-seal": Code(
            "a seal has the policy of PSD2 website certificates",
            "ask the issuer for a seal without 0.4.0.19495.3.1",
        ),
        "certificate.serial-too-long": Code(
            "the serial number has more than 20 octets",
            "ask the issuer for a certificate with a shorter one",
        ),
        "certificate.several-qualified-policies": Code(
            "several policies of EN 319 411-2 stand in one certificate",
            "ask the issuer for a certificate with the one that it follows",
        ),
        "certificate.should-not-be-critical": Code(
            "an extension is critical that should not be",
            "ask the issuer for a certificate where it is not",
        ),
        "certificate.subject-attribute-missing": Code(
            "the subject lacks country, organisation or common name",
            "ask the issuer for a certificate with each of them once",
        ),
        "certificate.subject-attribute-repeated": Code(
            "the subject has country, organisation or common name twice",
            "ask the issuer for a certificate with each of them once",
        ),
        "certificate.subject-country": Code(
            "the subject's country is not in ISO 3166",
            "ask the issuer for the two letters of the country of establishment",
        ),
        "certificate.subject-length": Code(
            "an attribute of the subject is empty or too long",
            "ask the issuer for a certificate with a shorter value",
        ),
        "certificate.subject-string-type": Code(
            "an attribute of the subject has a string type that its syntax does not have",
            "ask the issuer for UTF8String, and PrintableString for the country",
        ),
        "certificate.too-large": Code(
            "the input is longer than a certificate can be",
            "check that it is the right file",
        ),
        "certificate.unusual-key": Code(
            "the key's curve is none that TS 119 312 recommends",
            "use P-256, P-384, P-521 or a Brainpool curve of that size",
        ),
        "certificate.validity-too-long": Code(
            "a publicly trusted website certificate is valid for longer than browsers allow",
            "order a shorter one, or one from a hierarchy that browsers do not hold",
        ),
        "certificate.weak-key": Code(
            "the RSA key has less than 2048 bits",
            "make a new key: P-256, or RSA with 3072 bits",
        ),
        "client.base-url": Code(
            "the bank's base address is unusable",
            "give https://host[:port], with a path prefix if there is one",
        ),
        "client.target": Code(
            "the HTTP library would send another target than the sealed one",
            "give ids and base address without characters that need escaping",
        ),
        "clock.backwards": Code(
            "the sandbox's clock cannot be set so",
            "advance it by a positive time of less than ten years",
        ),
        "database.unusable": Code(
            "the sandbox's database cannot be opened",
            "check the address and install its driver",
        ),
        "der.malformed": Code(
            "the bytes are not DER",
            "have the certificate issued again",
        ),
        "der.unexpected-tag": Code(
            "another ASN.1 type stands there",
            "have the certificate issued again",
        ),
        "digest.duplicate-algorithm": Code(
            "the Digest header gives one algorithm twice",
            "send each algorithm once",
        ),
        "digest.malformed": Code(
            "the Digest header is not algorithm=base64",
            "send SHA-256=<base64 of the hash of the raw body>",
        ),
        "digest.mismatch": Code(
            "the body is not the one that was hashed",
            "hash the exact bytes that are sent; look for re-serialised JSON or changed line ends",
        ),
        "digest.unsupported": Code(
            "the Digest header has no supported algorithm",
            "send SHA-256 or SHA-512",
        ),
        "endpoint.method": Code(
            "the path does not take this method",
            "see the endpoint table",
        ),
        "endpoint.unknown": Code(
            "no endpoint has this path",
            "see the endpoint table",
        ),
        "extra.missing": Code(
            "an optional dependency is not installed",
            "install the extra that the message names",
        ),
        "file.exists": Code(
            "the file or folder exists and is not overwritten",
            "choose another path or remove it",
        ),
        "file.too-large": Code(
            "the file is longer than is read",
            "check that it is the right file",
        ),
        "file.unreadable": Code(
            "the file cannot be read",
            "check the path and its permissions",
        ),
        "file.unwritable": Code(
            "the file cannot be written",
            "check the path, disk space and permissions",
        ),
        "header.control-character": Code(
            "a header's value holds a control character",
            "remove it; line breaks in names are percent-encoded in keyId",
        ),
        "header.duplicate": Code(
            "a header that must be single stands more than once",
            "send it once",
        ),
        "header.redirect-uri": Code(
            "TPP-Redirect-URI is no usable https address",
            "send an https address of at most 2048 characters",
        ),
        "identity.incomplete": Code(
            "a seal certificate without key, or the other way round",
            "give both or none",
        ),
        "identity.key-mismatch": Code(
            "the private key does not belong to the QWAC",
            "give the key that the certificate was issued for",
        ),
        "identity.other-organisation": Code(
            "QWAC and QSealC have different organizationIdentifiers",
            "use certificates of one provider",
        ),
        "identity.tls": Code(
            "TLS does not take the certificate or key",
            "see the reason in the message",
        ),
        "internal.unexpected": Code(
            "something that nobody foresaw went wrong",
            "set TPPKIT_TRACEBACK=1, try again, and report what it shows",
        ),
        "json.duplicate-name": Code(
            "a JSON object has a name twice",
            "send each name once",
        ),
        "json.malformed": Code(
            "the bytes are not JSON in UTF-8",
            "send RFC 8259 JSON",
        ),
        "json.too-deep": Code(
            "the JSON nests too deeply",
            "flatten it",
        ),
        "json.too-large": Code(
            "the JSON is longer than is read",
            "send less",
        ),
        "key-id.malformed": Code(
            "keyId is not SN=<hexadecimal>,CA=<issuer>",
            "write it as the bank's profile has it",
        ),
        "key-id.mismatch": Code(
            "keyId names another certificate than the one sent",
            "write serial and issuer of the seal certificate",
        ),
        "key.unreadable": Code(
            "the private key cannot be read",
            "check the file and its password",
        ),
        "key.unsupported": Code(
            "no supported algorithm signs with this type of key",
            "use RSA, P-256 or P-384",
        ),
        "key.weak": Code(
            "the key is too small",
            "use RSA of at least 2048 bits",
        ),
        "log.chain-broken": Code(
            "a record does not follow from the one before",
            "compare with another copy of the archive: a record was changed, added or removed",
        ),
        "log.empty": Code(
            "the archive holds no record",
            "check that it is the right archive, and what became of its records",
        ),
        "log.gap": Code(
            "records are missing from the stream",
            "look for the missing records",
        ),
        "log.head": Code(
            "a head that was kept elsewhere is not the end of an archive",
            "compare with another copy: records were cut off, or the archive was rewritten",
        ),
        "log.other-stream": Code(
            "a record of another stream stands in this archive",
            "look for where it belongs",
        ),
        "log.repeated": Code(
            "a place in the stream is taken twice",
            "compare with another copy of the archive",
        ),
        "machine.no-such-move": Code(
            "this cannot happen in this state",
            "read the state again",
        ),
        "message.content-type": Code(
            "the body has another content type than expected",
            "send application/json",
        ),
        "message.malformed": Code(
            "method or target could not stand in a request",
            "percent-encode the target",
        ),
        "message.no-raw-path": Code(
            "the server gives only the decoded path",
            "use an ASGI server that sets raw_path",
        ),
        "message.too-large": Code(
            "the body is longer than is read",
            "send less",
        ),
        "model.invalid": Code(
            "the body does not fit the interface's model",
            "mend the fields that the message names",
        ),
        "name.malformed": Code(
            "the text is not a distinguished name",
            "write it as RFC 4514 has it",
        ),
        "organization-identifier.authority-mismatch": Code(
            "the organizationIdentifier and the PSD2 statement name different authorities",
            "ask the issuer for a certificate where both are the same NCAId",
        ),
        "organization-identifier.country": Code(
            "the organizationIdentifier's country is none that its scheme has",
            "ask the issuer: ISO 3166, for VAT also EL and XI, for LEI only XG",
        ),
        "organization-identifier.eidas-form": Code(
            "an identifier of the eIDAS network has white space or more than 256 characters",
            "ask the issuer for a certificate with the identifier as the network has it",
        ),
        "organization-identifier.is-name": Code(
            "the organizationIdentifier only repeats the organisation's name",
            "ask the issuer for the authorization or registration number",
        ),
        "organization-identifier.lei-checksum": Code(
            "the LEI's check digits are wrong",
            "check the LEI",
        ),
        "organization-identifier.malformed": Code(
            "the organizationIdentifier has none of the known forms",
            "write PSDcc-AUTHORITY-number, VATcc-…, NTRcc-…, LEIXG-… or xx:cc-…",
        ),
        "organization-identifier.missing": Code(
            "the subject does not have exactly one organizationIdentifier",
            "have the certificate issued with it",
        ),
        "organization-identifier.not-psd": Code(
            "the organizationIdentifier is no authorization number (PSDcc-AUTHORITY-number)",
            "where an authority gave a number, ask the issuer for a certificate with it",
        ),
        "organization-identifier.unregistered-scheme": Code(
            "an identifier of a national scheme, but no address of who registers its names",
            "ask the issuer for nameRegistrationAuthorities with an address",
        ),
        "payment.not-cancellable": Code(
            "the payment can no longer be cancelled",
            "read its status",
        ),
        "payment.not-final": Code(
            "the payment did not become final in time",
            "poll again later",
        ),
        "payment.unknown": Code(
            "the provider has no such payment",
            "check id and product",
        ),
        "pem.malformed": Code(
            "a PEM block's content is not base64",
            "check that the file is complete",
        ),
        "pkcs12.too-costly": Code(
            "opening the PKCS#12 file would take too much work",
            "export it again with an iteration count of at most 1000000",
        ),
        "pkcs12.unreadable": Code(
            "the PKCS#12 file cannot be opened",
            "check the password",
        ),
        "pki.country": Code(
            "the country is not two capital letters",
            "give an ISO 3166 code such as LT",
        ),
        "pki.days": Code(
            "the validity is out of range",
            "give 1 to 36500 days, from a day between 1950 and 9899",
        ),
        "pki.dns-name": Code(
            "the DNS name cannot stand in a certificate",
            "give a lower-case DNS name",
        ),
        "pki.key-kind": Code(
            "the key kind is not known",
            "give p256, p384, rsa2048, rsa3072 or rsa4096",
        ),
        "pki.name": Code(
            "a name is empty, too long or not printable",
            "give printable characters, at most 64 bytes in UTF-8 (256 characters for the authority's name)",
        ),
        "pki.organization-identifier": Code(
            "the organizationIdentifier has none of the known forms",
            "give for example PSDLT-BL-LB000000",
        ),
        "pki.role": Code(
            "a PSD2 role is unknown, missing or given twice",
            "give for example PSP_PI,PSP_AI",
        ),
        "pki.seeded-rsa": Code(
            "RSA keys cannot be made from a seed",
            "use p256 or p384 with a seed, or no seed",
        ),
        "pki.unusable": Code(
            "the folder is no test PKI",
            "make one with tppkit pki create",
        ),
        "port.unavailable": Code(
            "a port cannot be listened on",
            "choose another port, or 0 for free ones",
        ),
        "product.invalid": Code(
            "the instant product cannot carry this payment",
            "use sepa-credit-transfers, or a smaller amount",
        ),
        "product.unknown": Code(
            "there is no such payment product",
            "use sepa-credit-transfers or instant-sepa-credit-transfers",
        ),
        "profile.coverage": Code(
            "a seal profile does not cover what every seal must",
            "cover digest, x-request-id and (request-target)",
        ),
        "qcstatements.bare-statement": Code(
            "one QCStatement stands where a SEQUENCE OF them belongs",
            "have the certificate issued again; adorsys' and Indice's generators write this",
        ),
        "qcstatements.critical": Code(
            "the qcStatements extension is critical",
            "ask the issuer for a certificate where it is not",
        ),
        "qcstatements.duplicate": Code(
            "a statement stands twice",
            "have the certificate issued again",
        ),
        "qcstatements.explicit-tag": Code(
            "an explicit tag stands around a part of the PSD2 statement",
            "have the certificate issued again; the statement's ASN.1 module has no tags",
        ),
        "qcstatements.flattened-roles": Code(
            "several roles stand in one RoleOfPSP",
            "have the certificate issued again; an OBIE OpenSSL profile writes this",
        ),
        "qcstatements.legislation-country": Code(
            "QcCClegislation names no country of ISO 3166",
            "ask the issuer; an EU certificate has no such statement",
        ),
        "qcstatements.limit-value": Code(
            "the limit is negative, or in no currency of ISO 4217",
            "ask the issuer for a certificate with a limit that means something",
        ),
        "qcstatements.malformed": Code(
            "the qcStatements cannot be read in full",
            "have the certificate issued again",
        ),
        "qcstatements.nca-country": Code(
            "the country of NCAId is not in ISO 3166",
            "ask the issuer for the authority's country",
        ),
        "qcstatements.nca-id": Code(
            "NCAId is not CC-AUTHORITY",
            "ask the issuer for two and two to eight capital letters, as DE-BAFIN",
        ),
        "qcstatements.nca-name": Code(
            "NCAName has letters that are not Latin",
            "ask the issuer for the name in Latin letters; accents are fine",
        ),
        "qcstatements.nca-not-applicable": Code(
            "a central bank or public authority has an NCAName or NCAId other than NA",
            "ask the issuer for NA in both",
        ),
        "qcstatements.no-compliance": Code(
            "the QcCompliance statement is absent",
            "use a qualified certificate",
        ),
        "qcstatements.no-english-pds": Code(
            "no PKI disclosure statement in English is named",
            "ask the issuer for QcPDS with one in English",
        ),
        "qcstatements.no-psd2": Code(
            "no PSD2 statement can be read",
            "have the certificate issued with the PSD2 statement",
        ),
        "qcstatements.no-roles": Code(
            "the PSD2 statement names no role",
            "have the certificate issued with the provider's roles",
        ),
        "qcstatements.no-sscd": Code(
            "the policy promises a qualified device, but QcSSCD is absent",
            "ask the issuer which of the two is true",
        ),
        "qcstatements.not-eseal": Code(
            "the QcType is not eseal",
            "use a QSealC",
        ),
        "qcstatements.not-web": Code(
            "the QcType is not web",
            "use a QWAC",
        ),
        "qcstatements.numeric-currency": Code(
            "the limit's currency is a number",
            "prefer the three letters of ISO 4217",
        ),
        "qcstatements.other-legislation": Code(
            "QcCClegislation says that another law than the EU's qualifies it",
            "use a certificate that is qualified in the EU",
        ),
        "qcstatements.pds-address": Code(
            "a PKI disclosure statement is not at an https address",
            "ask the issuer for a certificate with an https address",
        ),
        "qcstatements.pds-language": Code(
            "the language of a PKI disclosure statement is not in ISO 639-1",
            "ask the issuer for the two letters of the language",
        ),
        "qcstatements.pds-language-case": Code(
            "the language of a PKI disclosure statement is in capitals",
            "ask the issuer for small letters",
        ),
        "qcstatements.retention": Code(
            "the retention period is negative",
            "ask the issuer for the number of years",
        ),
        "qcstatements.role-malformed": Code(
            "a role cannot be read",
            "have the certificate issued again",
        ),
        "qcstatements.role-mismatch": Code(
            "a role's name is not the one of its object identifier",
            "have the certificate issued again",
        ),
        "qcstatements.role-repeated": Code(
            "a role stands more than once",
            "nothing; the role counts once",
        ),
        "qcstatements.role-unknown": Code(
            "a role is none of TS 119 495",
            "nothing, if it is registered elsewhere; it gives no right at a bank",
        ),
        "qcstatements.role-unspecified": Code(
            "the role Unspecified stands beside others",
            "ask the issuer for the roles that are authorised, alone",
        ),
        "qcstatements.sscd-in-web": Code(
            "a website certificate states QcSSCD",
            "ask the issuer for a certificate without it",
        ),
        "qcstatements.string-type": Code(
            "a text of the PSD2 statement is not UTF8String",
            "have the certificate issued again",
        ),
        "qcstatements.text-size": Code(
            "a text of the PSD2 statement is empty or longer than 256 characters",
            "ask the issuer for a certificate with the whole text",
        ),
        "qcstatements.type-as-statement": Code(
            "a QcType stands as a statement of its own",
            "ask the issuer for a QcType statement that holds it",
        ),
        "qcstatements.unexpected-info": Code(
            "a statement without content carries some",
            "have the certificate issued again; ING's example certificates have this",
        ),
        "record.body": Code(
            "the kept body is not the body that was received",
            "compare with another copy of the archive",
        ),
        "record.body-redacted": Code(
            "the body was redacted",
            "the digest can no longer be recomputed; the log still proves the rest",
        ),
        "record.certificate": Code(
            "a kept certificate is not the one its name says",
            "compare with another copy of the archive",
        ),
        "record.leaf": Code(
            "a record's own hash is not the one written beside it",
            "compare with another copy of the archive",
        ),
        "record.malformed": Code(
            "a record is not as its schema has it",
            "compare with another copy of the archive",
        ),
        "record.no-qwac": Code(
            "no QWAC was kept with the record",
            "keep the QWAC of the connection with every record",
        ),
        "record.signing-input": Code(
            "the signing string is not the one that was recorded",
            "report it: this version builds another signing string",
        ),
        "record.unknown-kind": Code(
            "the record is of a kind that this version does not verify",
            "use a newer version",
        ),
        "record.unknown-profile": Code(
            "the record names a seal profile that this version does not know",
            "use a newer version, or add the profile",
        ),
        "record.version": Code(
            "the record has another schema version",
            "use a newer version",
        ),
        "request-id.malformed": Code(
            "X-Request-ID is not a UUID",
            "send a UUID",
        ),
        "request-id.missing": Code(
            "X-Request-ID is absent",
            "send a UUID with every request",
        ),
        "request-id.reuse": Code(
            "the X-Request-ID was used for another request within the hour",
            "make a new one for a new request",
        ),
        "request.refused": Code(
            "the service answered with an error",
            "see its status, code and text",
        ),
        "role.missing": Code(
            "the QWAC lacks the endpoint's PSD2 role",
            "use a certificate with the role",
        ),
        "rules.edition": Code(
            "no edition of the rules has this version",
            "name one that docs/reference/rules.md lists, or none",
        ),
        "seal.absent": Code(
            "a request must be sealed and the identity has no seal",
            "give the identity a QSealC and its key",
        ),
        "seal.header-present": Code(
            "the request has a header that sealing writes, or twice one that it covers",
            "leave these headers to sign_request",
        ),
        "seal.key-mismatch": Code(
            "the signer does not sign for the seal certificate",
            "give the key that the certificate was issued for",
        ),
        "seal.other-organisation": Code(
            "seal and QWAC have different organizationIdentifiers",
            "use certificates of one provider",
        ),
        "signature.algorithm": Code(
            "the algorithm is not one that the key has",
            "name the algorithm of the certificate's key",
        ),
        "signature.covered-names": Code(
            "the headers parameter is not in its form",
            "write lower-case names, single spaces, each once",
        ),
        "signature.duplicate-parameter": Code(
            "the Signature header has a parameter twice",
            "write each once",
        ),
        "signature.header-absent": Code(
            "the signature covers a header that is not in the request",
            "send every header that is covered",
        ),
        "signature.invalid": Code(
            "the signature does not fit",
            "sign the exact signing string with the seal's key",
        ),
        "signature.malformed": Code(
            "the Signature header is not name=value pairs, the values quoted",
            "write it as draft-cavage-http-signatures has it",
        ),
        "signature.missing": Code(
            "the request is not sealed",
            "send Digest, Signature and TPP-Signature-Certificate",
        ),
        "signature.missing-parameter": Code(
            "the Signature header lacks a parameter",
            "write keyId, algorithm, headers and signature",
        ),
        "signature.uncovered": Code(
            "the signature does not cover what it must",
            "cover digest, x-request-id and (request-target)",
        ),
        "time.malformed": Code(
            "the text is not an ISO 8601 time",
            "write for example 2026-01-31T12:00:00Z",
        ),
        "time.naive": Code(
            "a time has no time zone",
            "give aware times",
        ),
        "time.out-of-range": Code(
            "a time is outside the calendar in UTC",
            "give a time between the years 1 and 9999",
        ),
        "tls.anchors": Code(
            "the client authorities for TLS are unusable",
            "check the PEM of the authorities",
        ),
        "tls.certificate": Code(
            "the server certificate is unusable",
            "check the PEM of the server certificate",
        ),
        "tls.private-key": Code(
            "the server's private key is unusable",
            "check that it belongs to the server certificate",
        ),
        "transport.disconnected": Code(
            "the peer left in the middle of the request",
            "try again",
        ),
        "transport.failed": Code(
            "the connection failed",
            "check address, certificates and network; the TLS alert in the message says more",
        ),
        "transport.timeout": Code(
            "the service did not answer in time",
            "repeat with the same X-Request-ID within the hour",
        ),
        "trust.no-anchors": Code(
            "there is no certification authority to believe",
            "pass the authorities' certificates",
        ),
        "trust.no-path": Code(
            "no chain leads to a believed authority",
            "add the missing intermediate, or check that the issuer is the right one",
        ),
        "trust.unreadable": Code(
            "the trust material cannot be read",
            "check path and files",
        ),
    }
)
