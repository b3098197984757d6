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
        "access.exceeded": Code(
            "the consent's unattended reads of the day are used up",
            "read tomorrow, or send PSU-IP-Address while the customer is present",
        ),
        "account.unfit": Code(
            "the customer may not use this account for the payment or consent, debtorAccount or access names another account, or 1000 of"
            " its transfers are on their way",
            "choose an account that GET /customers of the control host lists for the customer; advance the clock",
        ),
        "account.unknown": Code(
            "the consent has no account of this resourceId, or the legacy interface knows no account of this acc",
            "take the resourceId from the accounts of the same consent; check phone number or IBAN",
        ),
        "aft.address": Code(
            "the customer of an account funding transaction has no complete billing address",
            "give first_name, last_name, address_type billing, address, postal_code, city and country",
        ),
        "aft.not-enabled": Code(
            "the account is not enabled for account funding transactions",
            "ask the gateway to enable and register it; in the sandbox, set it for the project",
        ),
        "aft.receiver": Code(
            "the receiver of an account funding transaction is no card account",
            "give receiver_account_number_type card-account and a number of 12 to 19 digits",
        ),
        "aft.state": Code(
            "the customer's country is US or CA, and state is none of the document's values",
            "give the two letters of a state or province; territories such as PR are not in the document's list",
        ),
        "answer.after-lost": Code(
            "the request was refused after an earlier attempt of it got no answer, or a 503 without a code, as gateways send it",
            "repeat it with the same X-Request-ID, or ask for its status; an earlier attempt may have been carried out",
        ),
        "answer.link": Code(
            "an answer links to another service, or to a path that is not below the interface's",
            "report it to the bank; the client's certificate is not shown elsewhere",
        ),
        "answer.no-end": Code(
            "a streamed answer has neither a Content-Length nor chunks, so a lost connection would look like its end",
            "report it to the service, or look for a proxy that speaks HTTP/1.0",
        ),
        "answer.no-outcome": Code(
            "the answer to a request that changes something is neither its success nor a refusal, as gateways and proxies send it",
            "find out, as the message says, whether it was carried out; in the legacy interface, send the same request with the same uuid"
            " or access token",
        ),
        "answer.pages": Code(
            "a page leads to a page before it, or the pages do not end",
            "report it to the service; ask for a shorter window",
        ),
        "answer.redirect": Code(
            "the bank answered a request with a redirect",
            "check the base address; sealed requests are never sent elsewhere",
        ),
        "answer.request-id": Code(
            "the answer does not echo the request's X-Request-ID, as when a proxy answers in the bank's place or a connection's answers"
            " are shifted: whether the request was carried out is not known",
            "do not act on the answer; send the same payment again within the hour with the same X-Request-ID, or ask for its status;"
            " report it to the bank",
        ),
        "answer.status": Code(
            "the answer has an unexpected success status",
            "check the bank's version of the interface",
        ),
        "answer.too-large": Code(
            "the answer is longer than is read",
            "report it to the bank",
        ),
        "answer.unreadable": Code(
            "a request that changes something was answered with a success that cannot be read",
            "find out what was done, as the message says, before you repeat the request; report it to the service",
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
        "attack.failed": Code(
            "a receiver answered nasty callbacks otherwise than it should",
            "look at each line that failed, and at what it tests",
        ),
        "attack.not-judged": Code(
            "the receiver does not take the good callback, so its refusals show nothing",
            "give the key that it believes, its own address as --signed-url, and a --body that the address takes",
        ),
        "attack.unreachable": Code(
            "nothing listens at the address",
            "start the receiver first",
        ),
        "authorisation.amount": Code(
            "the amount is above what is still authorised, or a void is of 0",
            "capture or void at most what partial voids left",
        ),
        "authorisation.closed": Code(
            "the authorisation was captured or voided, or it has lapsed",
            "return captured money with a refund; create a new order for anything else",
        ),
        "authorisation.delayed": Code(
            "a delayed authorisation cannot be captured by a request",
            "wait for the end of its expiration_period, or create the order with capture_mode manual",
        ),
        "authorisation.none": Code(
            "the payment is a sale, so there is nothing to capture or void",
            "return the money with a refund",
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
        "body.unexpected": Code(
            "the request has a body, and its endpoint takes none",
            "send the request without a body",
        ),
        "callback-cause.body-changed": Code(
            "the signature fits another body",
            "hand over the raw bytes; look for what adds or removes white space",
        ),
        "callback-cause.body-reserialised": Code(
            "the signature fits the same JSON in another spelling",
            "hand over the raw bytes, not what a framework read and wrote again",
        ),
        "callback-cause.key-other": Code(
            "a key that the receiver does not believe signed it",
            "give the receiver this key, if it is for this environment (test or live)",
        ),
        "callback-cause.key-validity": Code(
            "a key signed it that does not count at the time",
            "mend the key's validity, or ask the service which key it uses",
        ),
        "callback-cause.method": Code(
            "the signature fits another method, another spelling of it, or none",
            "hand over the method as it stood on the wire; if the service signs without it, tell us",
        ),
        "callback-cause.none-found": Code(
            "no usual mistake explains the signature",
            "compare the signed bytes with the service's, and its published keys with yours",
        ),
        "callback-cause.other-reading": Code(
            "the signature fits, but the bytes can be read as another request",
            "treat it as an attack; the service signs addresses that strangers choose",
        ),
        "callback-cause.request-id": Code(
            "the signature fits another spelling of the requestid",
            "look for what changes the header",
        ),
        "callback-cause.rule-only": Code(
            "the signature fits; only a rule refuses the callback",
            "mend what the error names",
        ),
        "callback-cause.signature-encoding": Code(
            "the signature fits in another encoding",
            "if the service really sends it so, tell us; it must be DER in lower-case hexadecimal",
        ),
        "callback-cause.signature-unreadable": Code(
            "the header holds no ECDSA signature in any usual encoding",
            "look for what changes the header",
        ),
        "callback-cause.url-case": Code(
            "the signature fits the path in other letters, large for small",
            "configure the address exactly as the service knows it; look for what changes the path on its way",
        ),
        "callback-cause.url-encoding": Code(
            "the signature fits other percent-encoding of the URL",
            "hand over the raw target; some servers give decoded paths only",
        ),
        "callback-cause.url-host": Code(
            "the signature fits another host",
            "configure the address exactly as the service knows it",
        ),
        "callback-cause.url-port": Code(
            "the signature fits another port",
            "configure the address with the port that the service knows, or without",
        ),
        "callback-cause.url-prefix": Code(
            "the signature fits a longer, shorter or otherwise changed path",
            "set stripped_prefix to what the proxy takes off, or hand over the original target",
        ),
        "callback-cause.url-query": Code(
            "the signature fits the URL without its query, or the query did not arrive",
            "look for what adds the query, or takes it off",
        ),
        "callback-cause.url-scheme": Code(
            "the signature fits the URL with another or no scheme",
            "ask the service: the document says that https:// is signed",
        ),
        "callback-cause.url-slash": Code(
            "the signature fits the URL with another slash at its end",
            "configure the address with the slash that the service knows",
        ),
        "callback-cause.url-unconfigured": Code(
            "the signature fits the target, which is no configured address",
            "add the address, if it is yours",
        ),
        "callback-key.curve": Code(
            "the key is not on secp256r1",
            "take the key that the service publishes for callbacks",
        ),
        "callback-key.setting": Code(
            "the keys' names, validity or number cannot be",
            "give one to eight keys different names, and an end after the beginning",
        ),
        "callback-key.unreadable": Code(
            "this is no public key",
            "give a SubjectPublicKeyInfo as PEM, DER or base64",
        ),
        "callback.address": Code(
            "the target is none of the receiver's addresses",
            "configure the address exactly as the service knows it; behind a proxy that shortens paths set stripped_prefix",
        ),
        "callback.address-unusable": Code(
            "this cannot be a callback address",
            "give https://, a lower-case ASCII host, a port if any and a path without dot segments, %25, braces or spaces",
        ),
        "callback.addresses-ambiguous": Code(
            "one request could be meant for two configured addresses",
            "give the addresses different paths",
        ),
        "callback.body": Code(
            "a GET has a body, or the body of a POST does not begin with {",
            "refuse it: such a message can be read in two ways",
        ),
        "callback.body-setting": Code(
            "the longest body is set to what cannot be",
            "set 2 to 65536 bytes",
        ),
        "callback.function": Code(
            "a function that a callback gate was given would not run, gives nothing to be awaited, or ends as cancelled",
            "give coroutine functions to AsyncCallbackGate and plain functions to CallbackGate; look for a task that was cancelled",
        ),
        "callback.header-duplicate": Code(
            "requestid or signature appears more than once",
            "refuse it; look for a proxy that adds headers",
        ),
        "callback.header-missing": Code(
            "requestid or signature is not there",
            "check that no proxy removes the headers",
        ),
        "callback.login-code": Code(
            "the login GET is for a code that is unknown, has expired, or had its login",
            "show the customer a new code",
        ),
        "callback.method": Code(
            "the method is not one that the address takes",
            "refuse it; callbacks are POST, the login request is GET",
        ),
        "callback.networks": Code(
            "this is no network or address",
            "write it as 203.0.113.0/28 or 203.0.113.7",
        ),
        "callback.no-handler": Code(
            "the receiver has an address of a kind that has no handler",
            "pass on_access=, on_payment= or on_login= for the kind, handler= for all other kinds, or remove the address",
        ),
        "callback.no-login": Code(
            "the gate has a LOGIN address and no function that answers a login GET",
            "pass login= to the gate, or remove the address",
        ),
        "callback.peer": Code(
            "the request does not come from one of the service's addresses",
            "compare the allow list with the addresses that the service publishes; name your own proxies as trusted, and let the server"
            " report the address of the connection (uvicorn: --no-proxy-headers)",
        ),
        "callback.place": Code(
            "the place to send callbacks to is not HTTP on this machine",
            "give http://127.0.0.1:PORT, with a path if all of them go there; `callback replay` goes elsewhere with --remote,"
            " `callback send` with https://",
        ),
        "callback.request-id": Code(
            "the requestid has other characters than are taken, or is too long",
            "refuse it; when the service really sends such ids, widen RequestIds",
        ),
        "callback.request-id-reused": Code(
            "a requestid came again to the same address with other signed bytes",
            "report it to the service: one of the two is not what it meant to send; nothing of the second was remembered",
        ),
        "callback.request-id-setting": Code(
            "the alphabet or length of requestids is set to what would be unsafe",
            "leave out : / and comma; at most 255 characters",
        ),
        "callback.signature": Code(
            "the signature does not fit",
            "explain_callback or tppkit callback explain tells why",
        ),
        "callback.signature-form": Code(
            "the signature is not DER in lower-case hexadecimal",
            "refuse it; check that no proxy changes the header",
        ),
        "callback.signature-range": Code(
            "r or s of the signature is out of range",
            "refuse it: no signer makes such a signature",
        ),
        "callback.time-future": Code(
            "a callback belongs to a time too far ahead",
            "set the clock; widen the window's `future` only as far as clocks may differ",
        ),
        "callback.time-past": Code(
            "a callback belongs to a time too long ago",
            "nothing, if it is replayed; else widen the window's `past`",
        ),
        "callback.time-unknown": Code(
            "nobody knows the time that a callback belongs to, so it is in no window",
            "nothing, if its code was never shown or is long forgotten; let time_of give NO_TIME where no time applies",
        ),
        "callback.too-large": Code(
            "body, target or headers are beyond the limits",
            "refuse it",
        ),
        "callback.unreadable": Code(
            "the callback is genuine, but its body is not what belongs to the address",
            "it is acknowledged and kept as failed: update the library or ask the service, then release or discard it",
        ),
        "callback.version-conflict": Code(
            "a record came again with the same ver and other content; it was acknowledged and not applied",
            "ask the service which of the two holds; the receipt has the second one's bytes and signature",
        ),
        "card.expired": Code(
            "the card expired before this month",
            "ask the customer for another card",
        ),
        "card.luhn": Code(
            "the check digit of the card number does not fit, as after a typing error",
            "ask the customer to check the number; the gateway may take it all the same",
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
            "a publicly trusted QWAC has clientAuth; its successor will not: Chrome's root program ends it",
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
        "certificate.dns-name": Code(
            "a dNSName of the QWAC has not the syntax of a DNS name",
            "ask the issuer for a certificate with host names only",
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
            "a website certificate names an internal host or address",
            "ask the issuer for a certificate for public DNS names",
        ),
        "certificate.is-ca": Code(
            "a certification authority's certificate stands where a provider's belongs",
            "present the end-entity certificate",
        ),
        "certificate.is-request": Code(
            "a certificate request was given where a certificate is judged",
            "give the certificate that was issued for it; `tppkit cert show` shows requests",
        ),
        "certificate.issuer-attribute-missing": Code(
            "the issuer's name lacks country, organisation or common name",
            "tell the issuer; it is the name of its authority that lacks them",
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
        "consent.access": Code(
            "the consent does not grant this",
            "create a consent whose access names balances or transactions",
        ),
        "consent.decided": Code(
            "the customer cannot decide a consent that is approved, declined, expired or revoked already",
            "create a new one",
        ),
        "consent.expired": Code(
            "the consent has expired",
            "create a new one",
        ),
        "consent.invalid": Code(
            "the consent is not approved, or is revoked",
            "send the customer to the approval link, or create a new one",
        ),
        "consent.not-decided": Code(
            "the customer did not decide about the consent in time",
            "wait again with the same id, or create a new consent",
        ),
        "consent.unknown": Code(
            "the provider has no such consent",
            "check the id",
        ),
        "control.host": Code(
            "the Host of a request to the control host is not a loopback name",
            "use localhost, an address in 127.0.0.0/8 or [::1]; another name may be an attempt at DNS rebinding",
        ),
        "credentials.malformed": Code(
            "the Authorization header is not in the form that the endpoint takes, or a key cannot be sent in it",
            "send the key alone, or with Basic as user name with an empty password; a key is printable ASCII without spaces",
        ),
        "credentials.missing": Code(
            "the request has no Authorization header",
            "send the key that you were given",
        ),
        "credentials.unknown": Code(
            "the key is none of a caller",
            "check the key, and that it is the one of this environment",
        ),
        "crl.critical-extension": Code(
            "the CRL, or an entry of it, has a critical extension that is not processed",
            "use another CRL, or OCSP",
        ),
        "crl.delta": Code(
            "the CRL lists only what changed since another one; what it revokes counts, but it proves no certificate good",
            "give the complete CRL",
        ),
        "crl.indirect": Code(
            "the CRL lists certificates of other authorities; it proves no certificate good, and revokes only if an authority of"
            " the chain signed it",
            "use the issuer's own CRL, or OCSP",
        ),
        "crl.key-usage": Code(
            "the authority's key may not sign CRLs",
            "report it to the authority",
        ),
        "crl.malformed": Code(
            "the bytes are no CRL, or an entry of it cannot be read",
            "fetch it again; give DER or PEM",
        ),
        "crl.other-issuer": Code(
            "the CRL is another authority's",
            "give the CRL of the certificate's issuer",
        ),
        "crl.scope": Code(
            "the CRL does not speak of this kind of certificate, or is another part of the list",
            "give the CRL that the certificate points to",
        ),
        "crl.signature": Code(
            "the CRL is not signed with the authority's key",
            "do not trust it; fetch it again",
        ),
        "crl.too-large": Code(
            "the CRL is longer than is read",
            "use OCSP",
        ),
        "crl.undated": Code(
            "the CRL does not say when the next one comes",
            "report it to the authority; it is taken as fresh for a day",
        ),
        "crl.weak-signature": Code(
            "the CRL is signed with a weak or unknown algorithm",
            "report it to the authority; use OCSP",
        ),
        "csv.cut-off": Code(
            "a report has no line of column names, or ends in the middle of a line",
            "discard the rows, and fetch the report again",
        ),
        "csv.malformed": Code(
            "a report is not CSV with the expected columns",
            "check the columns that the service documents; report it to the service",
        ),
        "csv.too-long": Code(
            "a row of a report is longer than is read",
            "report it to the service",
        ),
        "curl.file": Code(
            "a curl command takes data or headers from a file",
            "allow files (--allow-files), or write the data into the command",
        ),
        "curl.option": Code(
            "a curl command has an option that is not read here, a header that curl would not send, or not one address",
            "leave it out, or give the raw request",
        ),
        "curl.shell": Code(
            "a curl command cannot be split into words as a shell would",
            "close every quote, and write what variables and pipes stand for",
        ),
        "database.unavailable": Code(
            "the sandbox's database is locked, full, or does not answer in time",
            "repeat the request with the same X-Request-ID; close other programs that use the database, and check the disk space",
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
        "digest.algorithm": Code(
            "the body's digest lacks the algorithm that the profile demands, or has one, or a spelling of it, that it does not take",
            "send the digest that the message names",
        ),
        "digest.duplicate-algorithm": Code(
            "the Digest header gives one algorithm twice",
            "send each algorithm once",
        ),
        "digest.malformed": Code(
            "the Digest header is not algorithm=base64",
            "send the hash of the raw body in the form that the profile has; the message shows it",
        ),
        "digest.mismatch": Code(
            "the body is not the one that was hashed",
            "hash the exact bytes that are sent; look for re-serialised JSON or changed line ends",
        ),
        "digest.unknown-algorithm": Code(
            "no digest algorithm has this name",
            "write one that the message names",
        ),
        "digest.unsupported": Code(
            "the Digest header has no supported algorithm",
            "send the digest that the profile has; the message shows it",
        ),
        "endpoint.method": Code(
            "the path does not take this method",
            "see the endpoint table",
        ),
        "endpoint.streamed": Code(
            "a streamed endpoint is used as one with a whole answer, or the reverse",
            "use StreamMethod and StreamHandler for rows whose answer is streamed, and only for those",
        ),
        "endpoint.unknown": Code(
            "no endpoint has this path",
            "see the endpoint table",
        ),
        "external-authentication.hosted": Code(
            "external 3-D Secure values were sent for an order outside an own checkout",
            "create the order with one credit-card transaction and do not use its hosted page",
        ),
        "external-authentication.incomplete": Code(
            "some of the four external 3-D Secure values are missing",
            "send cavv, 3ds_version, 3ds_method_used and ds_transaction_id, or none of them",
        ),
        "extra.missing": Code(
            "an optional dependency is not installed",
            "install the extra that the message names",
        ),
        "fault.unknown": Code(
            "the sandbox has no fault of this name",
            "take a name of the list in the message",
        ),
        "fetch.failed": Code(
            "trust material could not be fetched from its address",
            "check the network and the address; try later",
        ),
        "fetch.refused": Code(
            "the address is not one that is asked: not http or https, or inside the own network",
            "check who wrote the address; allow private addresses where they are meant",
        ),
        "fetch.skipped": Code(
            "an address was not asked: it failed a moment ago, or enough was fetched for this chain",
            "try again in a minute",
        ),
        "fetch.timeout": Code(
            "trust material did not arrive in time",
            "try later",
        ),
        "fetch.too-large": Code(
            "more bytes came from an address than are read",
            "do not use the address",
        ),
        "file.exists": Code(
            "the file or folder exists and is not overwritten",
            "choose another path or remove it",
        ),
        "file.path": Code(
            "the content of a file stands where its name belongs",
            "give the file's name, or the content as bytes where the function takes bytes",
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
        "form.elsewhere": Code(
            "a form of the sandbox's pages was sent by another page, or to a name that is not the sandbox's",
            "open the page itself, at the address that the sandbox prints",
        ),
        "gateway.key": Code(
            "the file of the gateway's API key does not contain a key",
            "remove the file, and a new key is made",
        ),
        "har.body": Code(
            "a HAR file does not hold the body of the request",
            "export it again with bodies as text, or give the raw request",
        ),
        "har.entry": Code(
            "a HAR file has no such entry, or several that are signed",
            "say which entry is meant (--entry)",
        ),
        "har.malformed": Code(
            "a HAR file is not as HAR 1.2 has it",
            "export it again with bodies, or give the raw request",
        ),
        "header.consent-id": Code(
            "the Consent-ID header is absent",
            "send the consentId of a valid consent",
        ),
        "header.control-character": Code(
            "a header's value holds a control character",
            "remove it; line breaks in names are percent-encoded in keyId",
        ),
        "header.date": Code(
            "the Date header is not a date of HTTP",
            "write it like Tue, 15 Nov 1994 08:12:31 GMT",
        ),
        "header.duplicate": Code(
            "a header that must be single appears more than once",
            "send it once",
        ),
        "header.psu-ip-address": Code(
            "the PSU-IP-Address is not an IP address",
            "send the customer's IPv4 or IPv6 address, or leave the header out",
        ),
        "header.redirect-uri": Code(
            "TPP-Redirect-URI is no address that a browser can be sent to",
            "send an https address, one of an application's own scheme, or http on loopback, of at most 2048 characters",
        ),
        "host.failed": Code(
            "a request met a fault of the sandbox",
            "see the sandbox's log, and report it",
        ),
        "host.handlers": Code(
            "a host has no handler for a row, or no authenticator for the proof that a row requires",
            "give one handler for each row and one authenticator for each kind",
        ),
        "id.malformed": Code(
            "the id of an order, transaction, payment link or project is not a UUID",
            "use the id as the gateway shows it",
        ),
        "identity.environment": Code(
            "an environment variable of the identity cannot be used",
            "set each part once, as PEM, base64 or the path of a file (with _FILE behind the name)",
        ),
        "identity.expired": Code(
            "a certificate of the identity has expired",
            "renew it; banks refuse it",
        ),
        "identity.expires": Code(
            "a certificate of the identity expires soon",
            "order its renewal and put it in place, then reload",
        ),
        "identity.incomplete": Code(
            "a seal certificate without key, or the other way round",
            "give both or none",
        ),
        "identity.key-mismatch": Code(
            "the private key does not belong to the QWAC",
            "give the key that the certificate was issued for",
        ),
        "identity.no-source": Code(
            "the identity was made in memory, so there is nothing to read again",
            "make a new one and give it to renew",
        ),
        "identity.not-valid": Code(
            "the renewed certificate is not valid now, so it was not taken",
            "put a certificate in place that is valid now; the present one stays in use",
        ),
        "identity.not-yet-valid": Code(
            "a certificate of the identity is not valid yet",
            "use it from the beginning of its validity",
        ),
        "identity.other-organisation": Code(
            "QWAC and QSealC have different organizationIdentifiers",
            "use certificates of one provider",
        ),
        "identity.qc-type": Code(
            "a certificate of the identity states another use than it is given",
            "give the website certificate as qwac and the seal certificate as qseal; they may be swapped",
        ),
        "identity.seal-lost": Code(
            "a renewal has no seal, and the identity has one",
            "give the seal's certificate and key again; make another identity where none shall be sealed any more",
        ),
        "identity.tls": Code(
            "TLS does not take the certificate or key",
            "see the reason in the message",
        ),
        "inbox.address": Code(
            "a stored callback came to an address that the receiver no longer has",
            "give the receiver that address again, and release the callback",
        ),
        "inbox.dialect": Code(
            "the inbox has no SQL for this kind of database",
            "use PostgreSQL or SQLite",
        ),
        "inbox.full": Code(
            "as many webhooks of orders that are not known wait as may wait",
            "answer 503, so that the gateway repeats the webhook; start workers, or look who has the path that webhooks come to",
        ),
        "inbox.handler-aborted": Code(
            "a handler went on after one of its statements had failed, and the database has given the transaction up",
            "let the error go on, or have the statement in a savepoint of its own",
        ),
        "inbox.handler-committed": Code(
            "a handler ended the transaction that the inbox began",
            "leave commit() and rollback() to the inbox; raise to undo",
        ),
        "inbox.no-transaction": Code(
            "there is no transaction that the caller's writes could be part of",
            "begin one, on a connection of the inbox's kind of database without AUTOCOMMIT; or use `handle` or `accept`",
        ),
        "inbox.prefix": Code(
            "this cannot begin the names of the inbox's tables",
            "use a lower-case letter, then lower-case letters, digits and `_`, at most 30 characters",
        ),
        "inbox.schema": Code(
            "a table with a name of the inbox's has other columns",
            "give the inbox another prefix",
        ),
        "inbox.setting": Code(
            "a setting of the inbox cannot work",
            "correct the setting that the message names",
        ),
        "inbox.sqlite": Code(
            "the inbox was given an address of SQLite without a file",
            "name a file, for example sqlite:///inbox.sqlite",
        ),
        "inbox.time": Code(
            "the function that tells a time window the time of a callback failed",
            "answer 503, so that the service repeats the callback; mend what the function needs: the error's cause names it",
        ),
        "inbox.unavailable": Code(
            "the inbox's store fails",
            "answer 503, so that the service repeats the callback; call create_tables() at first, and look at the database's log",
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
        "jws.attached": Code(
            "the JSON Web Signature carries a payload of its own",
            "send header..signature with nothing between the two points",
        ),
        "jws.covered-names": Code(
            "pars in sigD is not a list of field names, each once",
            "name every covered field once",
        ),
        "jws.critical": Code(
            "crit is missing, incomplete, or names what is not obeyed",
            "mark b64, sigD and sigT as critical, and nothing unknown",
        ),
        "jws.encoded-payload": Code(
            "b64 is not false",
            "sign the lines of the fields as they stand (RFC 7797)",
        ),
        "jws.malformed": Code(
            "the JSON Web Signature is not in the detached compact form",
            "send base64url(header)..base64url(signature) with alg as text",
        ),
        "jws.offered-key": Code(
            "the protected header offers a key or its address",
            "send the certificate in x5c, or its hash in x5t#S256",
        ),
        "jws.signed-data": Code(
            "sigD is not an HttpHeaders object of JAdES",
            "send mId and pars, and nothing else",
        ),
        "jws.time": Code(
            "the time of signing is in no known form",
            "write sigT as YYYY-MM-DDTHH:MM:SSZ, or iat, not both",
        ),
        "key-id.malformed": Code(
            "keyId is not in the form that the profile has",
            "write it in the form that the message names",
        ),
        "key-id.mismatch": Code(
            "keyId names another certificate than the one sent",
            "name the seal certificate that is sent, in the form that the profile has",
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
        "legacy.callback-url": Code(
            "the provider's callback address is not https, or has a query",
            "give an https address with a path or without one",
        ),
        "legacy.key": Code(
            "a file in the sandbox's folder is no private key on secp256r1, or no API key of 32 hexadecimal digits",
            "remove the file; a new one is made at the next start",
        ),
        "listen.port": Code(
            "the port to listen on cannot be had",
            "take another one, or 0 for a free one",
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
            "if the archive has grown, compare its newest head; else records were cut off or rewritten: look for another copy",
        ),
        "log.other-stream": Code(
            "a record of another stream stands in this archive",
            "look for where it belongs",
        ),
        "log.repeated": Code(
            "a place in the stream is taken twice",
            "compare with another copy of the archive",
        ),
        "log.time-back": Code(
            "a record was received before an earlier record of its stream",
            "up to five minutes is a notice (overlapping requests, a corrected clock); ask the keeper about a larger step",
        ),
        "login.address": Code(
            "there is not exactly one address that login codes can be made for",
            "give the receiver one address of kind login that ends with {token}, or name it with address=",
        ),
        "login.answer": Code(
            "the receiver of a login code does not answer 200",
            "answer the signed GET with name, perm and code as JSON",
        ),
        "login.dead": Code(
            "the receiver of a login code does not answer its GET as it must",
            "read the reason; answer with name, perm and code as JSON within four seconds",
        ),
        "login.decided": Code(
            "the customer has decided about this login, or its code is dead",
            "scan the code again",
        ),
        "login.expired": Code(
            "the code of this login was scanned over five minutes ago",
            "scan a new code, and confirm it sooner",
        ),
        "login.session": Code(
            "the session id is too short to be hidden by its digest",
            "take the random id of the browser's session, of at least 16 characters",
        ),
        "login.setting": Code(
            "what a login is answered cannot be shown to a customer",
            "give a visible name of at most 70 characters, a visible code of at most 35 or none, and each permission once",
        ),
        "login.unknown": Code(
            "no code was scanned for this login, or another customer scanned it",
            "scan the code again",
        ),
        "machine.no-such-move": Code(
            "this cannot happen in this state",
            "read the state again",
        ),
        "message.address": Code(
            "what a request is for is no http or https address",
            "give the whole address as it was called: https://host/path?query, percent-encoded",
        ),
        "message.content-encoding": Code(
            "a body is compressed or otherwise encoded",
            "send the body without Content-Encoding",
        ),
        "message.content-type": Code(
            "the body has another content type than expected",
            "send application/json",
        ),
        "message.length": Code(
            "a body is not as long as its request announces, or came in a transfer coding",
            "give the body byte for byte as it was sent (an editor adds or drops line ends), decoded where it was chunked",
        ),
        "message.malformed": Code(
            "a request, its method or its target could not stand on a wire like this",
            "give the request as it is sent: first line, headers, an empty line, the body; the target percent-encoded",
        ),
        "message.no-length": Code(
            "a request that a proxy passes on has a Transfer-Encoding, whose trailers cannot be told from the proxy's headers",
            "send a Content-Length, or let the proxy read the whole body first (nginx: proxy_request_buffering on)",
        ),
        "message.no-raw-path": Code(
            "the server gives only the decoded path",
            "use an ASGI server that sets raw_path, or a WSGI server that sets RAW_URI or REQUEST_URI",
        ),
        "message.rerouted": Code(
            "the application would route the request by another path or query than stood on the wire",
            "let no header change the path (gunicorn: --forwarder-headers ''); give SealGate(mount=) what is taken off each path",
        ),
        "message.too-large": Code(
            "the body is longer than is read",
            "send less",
        ),
        "model.invalid": Code(
            "the body does not fit the interface's model",
            "mend the fields that the message names",
        ),
        "model.valid-until": Code(
            "validUntil is a day that has passed",
            "ask for today or a later day",
        ),
        "name.malformed": Code(
            "the text is not a distinguished name",
            "write it as RFC 4514 has it",
        ),
        "ocsp.critical-extension": Code(
            "the OCSP response, or its responder's certificate, has a critical extension that is not processed",
            "use another responder, or the CRL",
        ),
        "ocsp.dates": Code(
            "the OCSP response speaks of a time after it was signed, or after its responder's certificate ended",
            "ask again; where it stays, tell the authority",
        ),
        "ocsp.malformed": Code(
            "the bytes are no OCSP response, or it cannot be read",
            "ask again; give DER",
        ),
        "ocsp.nonce": Code(
            "the OCSP response does not repeat the nonce that was sent",
            "ask again; it may be replayed, or the responder signs in advance",
        ),
        "ocsp.nonce-absent": Code(
            "the OCSP response repeats no nonce",
            "nothing, or demand the nonce (require_nonce)",
        ),
        "ocsp.other-certificate": Code(
            "the OCSP response is about another certificate",
            "give the response for this certificate",
        ),
        "ocsp.responder-revoked": Code(
            "the certificate of the OCSP responder was revoked",
            "ask again, or use the CRL",
        ),
        "ocsp.responder-unchecked": Code(
            "nothing says whether the OCSP responder's own certificate was revoked",
            "nothing; the authority did not mark it as needing no check",
        ),
        "ocsp.signature": Code(
            "the OCSP response is not signed with the responder's key",
            "do not trust it; ask again",
        ),
        "ocsp.status": Code(
            "the OCSP responder gives no answer",
            "ask later, or use the CRL",
        ),
        "ocsp.stranger": Code(
            "the OCSP response is signed by somebody whom the issuer did not certify for it",
            "do not trust it",
        ),
        "ocsp.too-large": Code(
            "the OCSP response is longer than is read",
            "use the CRL",
        ),
        "ocsp.weak-signature": Code(
            "the OCSP response, or its responder's certificate, is signed with a weak algorithm or key",
            "report it to the authority; use the CRL",
        ),
        "one-click.card": Code(
            "a one-click payment names no card, two cards, or one that no accepted first transaction stored; or another payment names one",
            "send one of vault_token and first_transaction_id, of a completed first transaction, with one_click_type one-click",
        ),
        "one-click.cvc": Code(
            "a one-click payment has no cvc",
            "ask the customer for it every time; it must never be stored",
        ),
        "one-click.recurring": Code(
            "a payment is marked as one-click and as recurring",
            "use one-click for a present customer and recurring for an absent one",
        ),
        "order-lost.found": Code(
            "the answer to the creation of an order was lost, and orders have its merchant_order_id",
            "compare them (found) by amount and time: go on with the one of this request, or create it again if all are older",
        ),
        "order-lost.not-found": Code(
            "the answer to the creation of an order was lost, and no order has its merchant_order_id yet",
            "search again after a minute; the gateway may still be creating it",
        ),
        "order-lost.not-looked-up": Code(
            "the answer to the creation of an order was lost, and it could not be looked up: it has no merchant_order_id, or the search"
            " failed",
            "give each order a merchant_order_id of its own; search before you create it again",
        ),
        "order.currency": Code(
            "an account of the payment does not hold its currency",
            "pay in a currency that the account holds",
        ),
        "order.method": Code(
            "one-click, recurring or account funding is asked for with another payment method than credit-card",
            "set payment_method to credit-card",
        ),
        "order.receiver": Code(
            "name, street, city or country is absent, and the receiver is no customer of the bank",
            "give all four",
        ),
        "order.self": Code(
            "the account of the receiver is the one that pays",
            "name another receiver",
        ),
        "order.too-many": Code(
            "an order or a payment link has had 100 payment attempts, or 100 other orders were made from an order",
            "create another order",
        ),
        "order.unknown": Code(
            "the project has no order with this id",
            "check the id, and that the API key is of the project that created the order",
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
        "organization-identifier.extension": Code(
            "the CA/Browser Forum's organizationIdentifier extension names another organisation than the subject",
            "ask the issuer for a certificate in which both are the same",
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
        "organization-identifier.scheme": Code(
            "the organizationIdentifier is of a scheme that the relying party does not accept",
            "use a certificate with the authorization number (PSDcc-AUTHORITY-number); a relying party that accepts"
            " the scheme names it in its OrganizationPolicy (--org-scheme)",
        ),
        "organization-identifier.unregistered-scheme": Code(
            "an identifier of a national scheme, but no address of who registers its names",
            "ask the issuer for nameRegistrationAuthorities with an address",
        ),
        "organization-identifier.unusable": Code(
            "the organizationIdentifier is a placeholder, too long, or has characters that nobody sees",
            "have the certificate issued with the provider's organizationIdentifier",
        ),
        "organization-identifier.unusual-text": Code(
            "the organizationIdentifier has white space at an end or doubled, or letters that are not ASCII",
            "nothing, if the register writes it so; banks that compare it may see another",
        ),
        "organization-policy.scheme": Code(
            "an OrganizationPolicy accepts no scheme, or one that does not exist",
            "name one or more of PSD, VAT, NTR, LEI, or a national scheme with its colon (xx:)",
        ),
        "origin.malformed": Code(
            "the origin is not scheme://host with an optional port",
            "write it like https://bank.example",
        ),
        "outbox.damaged": Code(
            "a row of the evidence outbox cannot be read as a record",
            "compare with a backup of the database; the other rows wait until this one is repaired or moved away",
        ),
        "outbox.misused": Code(
            "the evidence outbox is used in a way that could archive a record whose payment is not committed, or archive it twice",
            "see the message; drain on a connection of its own, in the process that opened the archive",
        ),
        "outgoing.certificate": Code(
            "the certificate of a receiver that the sandbox calls does not verify",
            "give the receiver a valid certificate, for example one of the PKI's root for its name (tppkit pki issue server)",
        ),
        "outgoing.failed": Code(
            "a receiver that the sandbox calls cannot be reached, or does not speak HTTP over TLS",
            "look at the receiver's address, its listener and its log",
        ),
        "outgoing.refused": Code(
            "the sandbox does not call this address: it is not https, or its host is not on the public network",
            "give an https address; allow further networks with --allow-address, and loopback too behind --public-url",
        ),
        "outgoing.timeout": Code(
            "a receiver that the sandbox calls did not answer in time",
            "acknowledge first, and do the work afterwards",
        ),
        "outgoing.too-large": Code(
            "a receiver that the sandbox calls answers with more than is read",
            "shorten the answer",
        ),
        "pair.authority-name": Code(
            "QWAC and QSealC name one competent authority in two ways",
            "nothing to mend at banks that compare the NCAId; have the next certificates issued with one name",
        ),
        "pair.country": Code(
            "QWAC and QSealC state different countries",
            "ask the issuer which is right; a bank that compares subjects refuses the pair",
        ),
        "pair.kind": Code(
            "a certificate of the pair has the wrong QcType",
            "give the website certificate first, the seal certificate second",
        ),
        "pair.malformed": Code(
            "a certificate of the pair is malformed, so what could be read was compared",
            "see `tppkit cert check` of each; have the malformed one issued again",
        ),
        "pair.never-together": Code(
            "QWAC and QSealC are at no time both valid",
            "renew the one that has ended",
        ),
        "pair.no-organisation": Code(
            "QWAC or QSealC does not have exactly one organizationIdentifier that names an organisation",
            "have the certificate issued again with the provider's organizationIdentifier",
        ),
        "pair.no-psd2": Code(
            "QWAC or QSealC has no PSD2 statement",
            "have the certificate issued again with roles and authority",
        ),
        "pair.organisation-name": Code(
            "QWAC and QSealC state different organisation names",
            "check that both are yours; a bank that compares names refuses the pair",
        ),
        "pair.organisation-scheme": Code(
            "QWAC and QSealC have one number under different schemes or authorities",
            "have one of them issued again with the other's organizationIdentifier",
        ),
        "pair.organisation-text": Code(
            "QWAC and QSealC write one organizationIdentifier in two ways",
            "have one of them issued again with the other's text",
        ),
        "pair.other-authority": Code(
            "QWAC and QSealC name different competent authorities",
            "use a pair that one authority's authorisation stands behind",
        ),
        "pair.other-issuer": Code(
            "QWAC and QSealC come from different issuers",
            "nothing to mend; banks must believe both issuers",
        ),
        "pair.other-organisation": Code(
            "QWAC and QSealC belong to different organisations",
            "use the QSealC of the organisation that the QWAC names",
        ),
        "pair.other-roles": Code(
            "QWAC and QSealC state different roles",
            "have the one that is out of date issued again",
        ),
        "pair.same-certificate": Code(
            "one certificate was given as QWAC and as QSealC",
            "give both certificates",
        ),
        "pair.same-key": Code(
            "QWAC and QSealC certify one key",
            "make a key for each",
        ),
        "pair.swapped": Code(
            "QSealC and QWAC were given the other way round",
            "give the website certificate first",
        ),
        "pair.validity": Code(
            "QWAC and QSealC are not valid for the same time",
            "replace the one that ends first before it ends",
        ),
        "pan.search": Code(
            "assert_no_pan has no cards, no places, or a place that cannot be searched",
            "give card numbers of 12 to 19 digits, security codes of 3 or 4, files and folders as Path, answers as text or bytes",
        ),
        "path.critical-extension": Code(
            "a certificate of the chain has a critical extension that is not processed",
            "do not use the certificate; it demands something of its user that this software cannot honour",
        ),
        "path.expired": Code(
            "an authority of the chain has expired",
            "send or configure the authority's renewed certificate, or judge at the time of receipt",
        ),
        "path.extension-malformed": Code(
            "names or extensions of a certificate in the chain cannot be read",
            "have the certificate reissued",
        ),
        "path.key-usage": Code(
            "an authority of the chain has a key that may not sign certificates",
            "report it to the provider of the certificate",
        ),
        "path.length": Code(
            "an authority of the chain has more authorities below it than it may",
            "report it to the provider of the certificate",
        ),
        "path.name-constraints": Code(
            "a certificate of the chain has a name that an authority above it may not name, or constraints that cannot be applied",
            "report it to the provider of the certificate",
        ),
        "path.no-authority": Code(
            "a certificate of the chain was issued by one that is no certification authority",
            "do not trust the certificate",
        ),
        "path.not-yet-valid": Code(
            "an authority of the chain is not yet valid",
            "check the clock, or judge at the time of receipt",
        ),
        "path.policy": Code(
            "the certificate policies along the chain do not hold together, or none of the required ones holds",
            "check the required policies, or have the certificate issued under one of them",
        ),
        "path.pre-certificate": Code(
            "this is a pre-certificate for a transparency log, not a certificate",
            "use the final certificate",
        ),
        "path.purpose": Code(
            "an authority with a critical extended key usage may not certify for the purposes of the certificate",
            "have the certificate issued by an authority that may",
        ),
        "path.refused": Code(
            "a certificate of the chain breaks the form that RFC 5280 requires",
            "read its reason in the message; report it to the provider of the certificate",
        ),
        "path.signature": Code(
            "a certificate of the chain is not signed by the authority that it names",
            "do not trust the certificate; it is forged or damaged",
        ),
        "path.too-complex": Code(
            "the chain, or the search for one, is larger than is followed",
            "send only the authorities of the one chain",
        ),
        "path.weak-signature": Code(
            "a certificate of the chain is signed with a weak or unknown algorithm",
            "have the certificate reissued with SHA-256 or better",
        ),
        "payment-link.unknown": Code(
            "the project has no payment link with this id",
            "check the id, and that the API key is of the project that created the link",
        ),
        "payment.decided": Code(
            "the customer cannot decide a payment that is approved, rejected or cancelled already",
            "initiate a new payment",
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
        "pem.trust-settings": Code(
            "a PEM block TRUSTED CERTIFICATE carries OpenSSL's trust settings, which are not read",
            "write it as a plain certificate: openssl x509 -in FILE -out PLAIN",
        ),
        "pkcs12.too-costly": Code(
            "opening the PKCS#12 file would take too much work",
            "export it again with an iteration count of at most 1000000",
        ),
        "pkcs12.unreadable": Code(
            "the PKCS#12 file cannot be opened",
            "give its password (on the command line: --password-file FILE, with the password in the first line)",
        ),
        "pki.already-revoked": Code(
            "the certificate is revoked already, and the lists say so",
            "only a hold can be revoked again, for another reason",
        ),
        "pki.country": Code(
            "the country is not in ISO 3166-1, or not said",
            "give two capital letters such as LT",
        ),
        "pki.days": Code(
            "the validity is out of range",
            "give 1 to 36500 days, from a day between 1950 and 9899, within the validity of the authorities",
        ),
        "pki.dns-name": Code(
            "the DNS name cannot stand in a certificate",
            "give a lower-case DNS name",
        ),
        "pki.ended": Code(
            "the authorities of the test PKI have ended, so nothing more can be signed",
            "make a new PKI with tppkit pki create",
        ),
        "pki.faults": Code(
            "the PKI begins before the rules that its faults would break",
            "give a day from 2023-09-01 on, or leave --faults out",
        ),
        "pki.foreign-key": Code(
            "a key or file lies outside the folder, or does not belong to its certificate or request",
            "give the key that it was made with; in a folder, leave what tppkit pki create made as it is",
        ),
        "pki.key-kind": Code(
            "the key is of a kind that the certificate cannot have",
            "give p256, p384, rsa2048, rsa3072 or rsa4096; for a QSealC also ed25519",
        ),
        "pki.label": Code(
            "the label cannot be the stem of file names",
            "give letters, digits, dots, hyphens and underscores, at most 64",
        ),
        "pki.name": Code(
            "a name is empty, too long or not printable",
            "give 1 to 64 printable characters (256 for the authority's name), not the organizationIdentifier",
        ),
        "pki.not-issued-here": Code(
            "the certificate was not issued by an authority of this folder",
            "name the folder whose authority issued it",
        ),
        "pki.not-on-hold": Code(
            "the certificate is not on hold",
            "only certificateHold can be lifted; every other revocation is final",
        ),
        "pki.not-test": Code(
            "an authority does not say TEST in its name",
            "never sign with a real authority's key; make a test PKI with tppkit pki create",
        ),
        "pki.organization-identifier": Code(
            "the organizationIdentifier has none of the known forms, or names no country or organisation",
            "give for example PSDLT-BL-LB000000",
        ),
        "pki.policy": Code(
            "the policy of QWACs is not known",
            "give gen or ev",
        ),
        "pki.profile": Code(
            "the certificate that is asked for would break a rule of its profile, which the message names",
            "give what the rule allows; a certificate that breaks one on purpose is a fault (tppkit pki create --faults)",
        ),
        "pki.reason": Code(
            "the reason of a revocation is not known, or stands in delta CRLs only",
            "give for example keyCompromise or superseded",
        ),
        "pki.request": Code(
            "a certificate request cannot be used or mended",
            "make a new one with tppkit pki csr",
        ),
        "pki.revocation-time": Code(
            "a certificate cannot be revoked from a time to come, nor from before it is valid",
            "give a past time within its validity, or none for now",
        ),
        "pki.role": Code(
            "a PSD2 role is unknown, missing or given twice",
            "give for example PSP_PI,PSP_AI",
        ),
        "pki.services-url": Code(
            "the address of the PKI's services is unusable",
            "give http://host[:port][/path], without a slash at its end",
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
        "profile.algorithm": Code(
            "the profile has no name for the signer's algorithm",
            "make the signer with an algorithm that the profile lists",
        ),
        "profile.coverage": Code(
            "a seal profile does not cover what every seal must",
            "demand the digest, and the request's id or a time",
        ),
        "profile.file": Code(
            "a file holds no seal profile",
            "write TOML with the keys that docs/seals.md lists",
        ),
        "profile.key": Code(
            "the profile has no algorithm for a key of this kind",
            "seal with a certificate of a kind of key that the message names, or take another profile",
        ),
        "profile.malformed": Code(
            "the profile contradicts itself, or a field of it is of another type",
            "read the message; it names the fields",
        ),
        "project.too-many": Code(
            "the sandbox has 1000 projects, the most that it keeps",
            "use an existing project, or start in a new folder",
        ),
        "project.unknown": Code(
            "the sandbox has no project with this id",
            "check the id, or create a project by POST /gateway/projects of the control host",
        ),
        "proxy.network": Code(
            "a trusted proxy is given by something that is no network",
            "write addresses as 192.0.2.7 or 192.0.2.0/24, or unix",
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
            "a statement stands twice, or two state the semantics of the name",
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
            "NCAName has letters that are not Latin, or characters that nobody sees",
            "ask the issuer for the name as plain text in Latin letters; accents are fine",
        ),
        "qcstatements.nca-name-absent": Code(
            "NCAName is NA, and NCAId names an authority",
            "ask for the name of the authority that supervises the holder; where none does, both are NA",
        ),
        "qcstatements.nca-name-identifier": Code(
            "NCAName holds an authority's identifier, perhaps in exchange for the name",
            "ask the issuer for the name in NCAName and the identifier in NCAId",
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
        "qcstatements.pds-language-repeated": Code(
            "two PKI disclosure statements are in one language",
            "ask the issuer for a certificate with one for each language",
        ),
        "qcstatements.retention": Code(
            "the retention period is negative",
            "ask the issuer for the number of years",
        ),
        "qcstatements.role-later": Code(
            "a role came with a later edition of TS 119 495 than the one that counts",
            "nothing; an issuer may follow a new edition before it counts",
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
        "qcstatements.sscd-without-policy": Code(
            "QcSSCD is stated, but the certificate policy is one for keys without a qualified device",
            "ask the issuer for a certificate whose policy and statements agree",
        ),
        "qcstatements.string-type": Code(
            "a text of a statement has another string type than its syntax says",
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
        "qr.account": Code(
            "the account of a payment code is neither an IBAN with right check digits nor a phone number",
            "write the IBAN without spaces in capitals, or the phone number with 7 to 15 digits",
        ),
        "qr.address-fragment": Code(
            "an address in a code has a fragment",
            "leave the part from # on out; it is never sent",
        ),
        "qr.address-host": Code(
            "an address in a code has no host name, IP address or port of the usual form",
            "name the host in lower-case ASCII (xn-- for international names), and the port in digits",
        ),
        "qr.address-malformed": Code(
            "an address in a code has a character, an encoding or a dot segment that programs read differently",
            "percent-encode the address in UTF-8 (RFC 3986), and resolve dot segments; a login code needs a path, without %25 or spaces",
        ),
        "qr.address-scheme": Code(
            "an address in a code is not https",
            "use an https address",
        ),
        "qr.address-userinfo": Code(
            "an address in a code has a user name before its host",
            "leave the part up to @ out; it is used to feign another host",
        ),
        "qr.amount": Code(
            "the amount of a payment code has another form than 12.50, is zero or too large, or has decimals that its currency lacks",
            "write it in the major unit below 1000000000, with a point and at most the decimals of the currency (EUR 2, JPY 0)",
        ),
        "qr.character": Code(
            "a code's text holds a character that cannot be seen or changes what is seen",
            "leave out control, bidi and zero-width characters, marks at a field's begin, and fields of blanks",
        ),
        "qr.charset": Code(
            "the text of a QR code is not in UTF-8",
            "make the code again with its text in UTF-8",
        ),
        "qr.colon": Code(
            "a field of a payment code holds a colon",
            "leave the colon out; it separates fields and cannot be escaped",
        ),
        "qr.currency": Code(
            "the currency of a payment code is no code of ISO 4217",
            "write its three capital letters, such as EUR",
        ),
        "qr.fields": Code(
            "a payment code has more or fewer than six fields",
            "write TX:<ACC>:<NAME>:<CCC>:<AMT>:<TYPE>:<MSG>, fields without colons",
        ),
        "qr.no-code": Code(
            "no QR code is found in the picture",
            "take the whole code, sharp, with its light margin",
        ),
        "qr.part": Code(
            "the code in the picture holds one part of a text that several codes share",
            "ask for one code with the whole text",
        ),
        "qr.picture-malformed": Code(
            "the picture is no PNG or JPEG file, or is damaged",
            "save it as PNG again",
        ),
        "qr.picture-too-large": Code(
            "the picture has more bytes, pixels, scans or chunks than are read",
            "cut the code out of it, or save it smaller",
        ),
        "qr.scale": Code(
            "the scale of a picture cannot be",
            "set 1 to 100 pixels a module",
        ),
        "qr.scan-form": Code(
            "the text is no scan link",
            "write <service>/scan?<percent-encoded code>; a space is %20, a plus %2B",
        ),
        "qr.several-codes": Code(
            "the picture holds several QR codes",
            "cut out the one that is meant",
        ),
        "qr.too-long": Code(
            "the text is longer than a QR code holds",
            "shorten the fields, or take a lower level of error correction",
        ),
        "qr.unknown": Code(
            "the text begins as none of the known codes, or not as the one that was asked for",
            "give a LOGIN: code, a TX: code or a scan link",
        ),
        "query.after": Code(
            "a page of transactions should begin after one that the account does not have",
            "follow the link to the next page as the bank gave it",
        ),
        "query.duplicate": Code(
            "the query names a parameter more than once",
            "send each query parameter once",
        ),
        "query.malformed": Code(
            "the query cannot be read as name=value pairs",
            "percent-encode names and values as UTF-8 and join the pairs with &",
        ),
        "query.missing": Code(
            "a required query parameter is absent",
            "add the parameter that the message names",
        ),
        "query.value": Code(
            "a query parameter has a value that it cannot have",
            "see the message for the values",
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
            "a kept certificate is damaged, or is not the one its name says",
            "restore it from another copy of the archive; until then its records are indeterminate",
        ),
        "record.entry": Code(
            "it is not clear which record of an archive is meant, or it cannot be used",
            "say which line is meant (--entry)",
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
        "recurring.incomplete": Code(
            "a recurring payment lacks recurring_type or first_network_transaction_id, or a payment is initiated that has neither",
            "send both fields in payment_method_details when the order is created",
        ),
        "refund.amount": Code(
            "the refund is above what was captured and not refunded yet, or 0",
            "refund at most what is left",
        ),
        "renewal.authority": Code(
            "the competent authority changes",
            "tell the bank before the change",
        ),
        "renewal.authority-name": Code(
            "the competent authority's name changes",
            "nothing to mend; the NCAId is what counts",
        ),
        "renewal.client-auth": Code(
            "clientAuth is gone from the extended key usage",
            "order the QWAC from a hierarchy that is not for browsers",
        ),
        "renewal.device": Code(
            "the statement about a qualified device (QcSSCD) changes",
            "ask banks that demand qualified seals",
        ),
        "renewal.extended-key-usage": Code(
            "the extended key usage changes",
            "have what is gone issued again, or ask the bank",
        ),
        "renewal.gap": Code(
            "there is a time between old and new certificate at which neither is valid",
            "order the new one with an earlier start",
        ),
        "renewal.issuer": Code(
            "the issuer changes",
            "give banks the new issuer's certificates before the change",
        ),
        "renewal.issuer-and-serial": Code(
            "issuer and serial number, and with them keyId, change",
            "send the keyId of the certificate that is sent",
        ),
        "renewal.issuer-key": Code(
            "the issuer has the same name and another key",
            "send the new intermediate with the certificate",
        ),
        "renewal.key-algorithm": Code(
            "type or size of the key changes",
            "ask the bank which algorithms it takes, before the change",
        ),
        "renewal.key-usage": Code(
            "the key usage changes",
            "ask the bank which it takes, or have the old one issued again",
        ),
        "renewal.kind": Code(
            "the QcType changes, so this is no renewal",
            "compare certificates of one use",
        ),
        "renewal.malformed": Code(
            "other things are malformed than before",
            "have a malformed certificate issued again",
        ),
        "renewal.names": Code(
            "the subject alternative names change",
            "tell banks that know you by them",
        ),
        "renewal.no-organisation": Code(
            "old or new certificate does not have exactly one organizationIdentifier that names an organisation",
            "have the certificate issued again with the provider's organizationIdentifier",
        ),
        "renewal.no-psd2": Code(
            "the new certificate gives no PSD2 role, the old one does",
            "have it issued again with the PSD2 statement and the roles",
        ),
        "renewal.not-longer": Code(
            "the new certificate does not end later than the old one",
            "give the old one first, or order another",
        ),
        "renewal.not-qualified": Code(
            "the new certificate is no longer stated to be EU qualified",
            "have it issued again with QcCompliance",
        ),
        "renewal.organisation-scheme": Code(
            "the organizationIdentifier changes its scheme or authority, not its number",
            "confirm that it is the same organisation; tell the bank before the change",
        ),
        "renewal.organisation-text": Code(
            "the organizationIdentifier is written otherwise",
            "have it issued as before, or tell the bank before the change",
        ),
        "renewal.other-organisation": Code(
            "the certificates belong to different organisations",
            "this is no renewal; have banks onboard the new organisation",
        ),
        "renewal.overlap": Code(
            "how long both certificates are valid",
            "have every bank know the new one within this time",
        ),
        "renewal.policies": Code(
            "the certificate policies change",
            "ask banks that demand a policy",
        ),
        "renewal.public-key": Code(
            "the public key is new",
            "give it to banks that pin it before the change",
        ),
        "renewal.public-key-kept": Code(
            "the public key is kept",
            "nothing to mend; a new key is better practice",
        ),
        "renewal.qualified": Code(
            "the new certificate is stated to be EU qualified, the old one is not",
            "nothing to mend",
        ),
        "renewal.revocation-addresses": Code(
            "the addresses for OCSP, CRL or issuer change",
            "give them to banks with closed firewalls",
        ),
        "renewal.roles-added": Code(
            "the new certificate has further roles",
            "tell banks that keep your roles",
        ),
        "renewal.roles-removed": Code(
            "the new certificate lacks roles of the old one",
            "have it issued again if you are still authorised",
        ),
        "renewal.same-certificate": Code(
            "old and new are the same certificate",
            "give both certificates",
        ),
        "renewal.subject": Code(
            "the subject changes",
            "tell banks that know you by it before the change",
        ),
        "renewal.thumbprint": Code(
            "the thumbprint changes, as always",
            "give it to banks that know you by it before the change",
        ),
        "replay.no-request-id": Code(
            "not every seal of the dialect covers a request id, so repeated requests cannot be told",
            "use another profile, or no replay guard",
        ),
        "replay.table": Code(
            "the replay guard's table has a name that is none",
            "use lower-case letters, digits and _",
        ),
        "replay.unavailable": Code(
            "the store of used X-Request-IDs does not answer or is full",
            "mend the store; the provider may repeat the request",
        ),
        "request-id.answered": Code(
            "the request was answered before, at a length that is not kept",
            "ask for the state of what was requested",
        ),
        "request-id.in-progress": Code(
            "the same request was sent before and is not answered yet",
            "wait, and send it again",
        ),
        "request-id.malformed": Code(
            "the header that names the request does not hold a UUID",
            "send a UUID in the header that the message names",
        ),
        "request-id.missing": Code(
            "the header that names the request is absent",
            "send a UUID with every request, in the header that the message names",
        ),
        "request-id.reuse": Code(
            "the request's id was used for another request, within the hour or, as uuid of the legacy interface, ever",
            "make a new one for a new request",
        ),
        "request.refused": Code(
            "the service answered with an error",
            "see its status, code and text",
        ),
        "request.signature": Code(
            "a certificate request is not signed with its own key",
            "make the request again with the private key that belongs to it",
        ),
        "revocation.future": Code(
            "the answer about revocation is dated after the present",
            "check the clock",
        ),
        "revocation.invalidity-date": Code(
            "the certificate was revoked later, but its key is thought lost since before the time of judgement",
            "look at what was signed in between by other means",
        ),
        "revocation.no-nonce": Code(
            "a nonce is required of OCSP responders, but none is made",
            "give make_nonce, or do not require one",
        ),
        "revocation.revoked": Code(
            "a certificate of the chain was revoked",
            "do not accept it; the holder needs a new certificate",
        ),
        "revocation.stale": Code(
            "the answers about revocation at hand are of another time",
            "give or fetch answers for the time of judgement",
        ),
        "revocation.unknown": Code(
            "no usable answer says whether a certificate was revoked",
            "give CRLs or OCSP responses, allow fetching, or choose the soft failure",
        ),
        "revocation.unreadable": Code(
            "the file is neither a CRL nor an OCSP response",
            "give DER or PEM of a CRL, or DER of an OCSP response",
        ),
        "role.missing": Code(
            "the QWAC lacks the endpoint's PSD2 role",
            "use a certificate with the role",
        ),
        "rules.edition": Code(
            "no edition of the rules has this version",
            "name one that docs/reference/rules.md lists, or none",
        ),
        "sandbox.public-url": Code(
            "the public address of the sandbox cannot be used",
            "give https://HOST:PORT of the PSD2 host; the approval pages are on the next port",
        ),
        "seal.absent": Code(
            "a request must be sealed and the identity has no seal",
            "give the identity a QSealC and its key",
        ),
        "seal.certificate-type": Code(
            "the certificate of a seal says that it is for something else",
            "give the QSealC; the QWAC is for connections",
        ),
        "seal.header-present": Code(
            "the request has a header that sealing writes, or twice one that it covers",
            "leave these headers to sign_request",
        ),
        "seal.key-id-needed": Code(
            "the profile's keyId is not told by the certificate",
            "give key_id: the client id or the address that the bank knows",
        ),
        "seal.key-mismatch": Code(
            "the signer does not sign for the seal certificate",
            "give the key that the certificate was issued for",
        ),
        "seal.origin": Code(
            "a request to another origin was not sealed",
            "make a SealAuth for that bank, or mend the address",
        ),
        "seal.other-organisation": Code(
            "seal and QWAC have different organizationIdentifiers",
            "use certificates of one provider",
        ),
        "seal.other-origin": Code(
            "a seal was made for one origin, and its requests go to another",
            "give the seal, and the client or SealAuth that uses it, the same origin",
        ),
        "seal.own-signature": Code(
            "the signer's signature does not verify with the certificate's key",
            "nothing was sent; check the device or service that signs",
        ),
        "seal.request-id-in-use": Code(
            "a request with this X-Request-ID has been waiting long for its signature",
            "see whether the signer answers; send a request again after its answer or failure only",
        ),
        "seal.request-id-malformed": Code(
            "an X-Request-ID is empty, or begins or ends with white space, which is lost on the way",
            "nothing was sent; give the id without white space, or none to get a new one",
        ),
        "seal.request-id-reused": Code(
            "an X-Request-ID was given to a second, different request, which was not sent",
            "give every new request a new id; repeat one only with all of its request",
        ),
        "seal.target-uncovered": Code(
            "the profile's seals do not cover method and target",
            "take them from unverified_message, knowing that nobody signed them",
        ),
        "seal.time-needed": Code(
            "the profile writes the time of signing",
            "pass at=",
        ),
        "seal.unknown-certificate": Code(
            "the request carries no certificate, and none is known by its keyId",
            "give the policy the provider's certificate under its keyId",
        ),
        "search.paging": Code(
            "start and search_after are combined, search_after is not of an answer, size is too large, or size or sort changed",
            "use one of them, with at most 1000 results at a time; repeat size and sort on every page",
        ),
        "search.query": Code(
            "the search query is not in the search language, too long or complex, or has a field or value that is not searched by",
            "look at the character or field that the message names; quote values, or build the query with protocol.gateway.F",
        ),
        "search.sort": Code(
            "sort is not a field and a direction, or orders are not sorted by this field",
            "write it as `created asc`; the sandbox sorts by created and modified",
        ),
        "setup-token.expired": Code(
            "the setup token's order was created more than 300 seconds ago",
            "create a new order and store the card at once",
        ),
        "setup-token.unknown": Code(
            "the project has no setup token of this value",
            "take it from payment_method_details of the order's transaction",
        ),
        "setup-token.used": Code(
            "the setup token has stored a card already",
            "create a new order for another card",
        ),
        "signature.algorithm": Code(
            "the algorithm is not one that the profile has for the key",
            "sign by an algorithm that the message names, and write its name so",
        ),
        "signature.covered-names": Code(
            "the headers parameter is not in its form",
            "name what the profile covers, each once, separated by single spaces",
        ),
        "signature.created": Code(
            "the signature is from the future, or does not say when it was made",
            "set the sender's clock, and send the time of signing",
        ),
        "signature.duplicate-parameter": Code(
            "the Signature header has a parameter twice",
            "write each once",
        ),
        "signature.expired": Code(
            "the signature has expired or is too old",
            "sign the request again",
        ),
        "signature.header-absent": Code(
            "the signature covers a header that is not in the request",
            "send every header that is covered",
        ),
        "signature.invalid": Code(
            "the signature does not fit",
            "sign the exact signing string with the seal's key",
        ),
        "signature.label": Code(
            "the labels of Signature-Input and Signature differ, or several are there and none was asked for",
            "send both fields with the same labels; say which one is meant",
        ),
        "signature.lifetime": Code(
            "the signature wants to count longer than the profile lets any",
            "set expires nearer to the time of signing",
        ),
        "signature.malformed": Code(
            "the Signature header is not name=value pairs, the values quoted",
            "write it as the profile has it; the message shows the form",
        ),
        "signature.missing": Code(
            "the request is not sealed",
            "send the digest, the signature and the certificate, each where the profile has it",
        ),
        "signature.missing-parameter": Code(
            "the Signature header lacks a parameter",
            "add the parameter that the message names",
        ),
        "signature.other-coverage": Code(
            "the signature covers a field that the profile does not allow",
            "cover the fields that the message lists, and no other",
        ),
        "signature.time-not-allowed": Code(
            "a signature of this algorithm cannot cover a time",
            "cover the fields and use an algorithm of the profile; the message shows them",
        ),
        "signature.uncovered": Code(
            "the signature does not cover what it must",
            "send and cover every field that the message lists",
        ),
        "signature.unsupported-component": Code(
            "the signature covers something that is no part of a request, or that is not known here",
            "cover the component that the message names in another way",
        ),
        "signer.answer": Code(
            "the signer gave something else than bytes",
            "return the bare signature as bytes, neither hexadecimal nor base64",
        ),
        "signer.async-only": Code(
            "the signer signs only with await",
            "use the asynchronous client or call, or give the signer a function that blocks",
        ),
        "signer.close": Code(
            "the signer that a function made must be awaited to be closed, which nothing does",
            "give the signer a close that blocks, or none",
        ),
        "signer.failed": Code(
            "the signer raised an error of its own",
            "read the error below it; it says what the device or function met",
        ),
        "signer.key-not-found": Code(
            "the device or service has no such key, or several",
            "name the token and the key by a label or id that only one has, with its public key or certificate beside it",
        ),
        "signer.module": Code(
            "the PKCS#11 library cannot be loaded",
            "give the path of the device's library for this machine's architecture",
        ),
        "signer.no-function": Code(
            "the signer has no function to sign with",
            "give sign, sign_async or both",
        ),
        "signer.pin": Code(
            "the device refuses the PIN",
            "mend the PIN before the next start: a few wrong ones lock the device",
        ),
        "signer.refused": Code(
            "the signing service does not let us use this key",
            "check credentials, region, permissions (kms:GetPublicKey, kms:Sign), and that the key is enabled and for signing",
        ),
        "signer.sync-only": Code(
            "the signer would hold up the event loop",
            "give it sign_async, for example through asyncio.to_thread",
        ),
        "signer.throttled": Code(
            "the signing service has had too many requests",
            "send fewer at once, or have the account's quota raised",
        ),
        "signer.timeout": Code(
            "the signing service did not answer in time",
            "try again; nothing was signed that anybody has seen",
        ),
        "signer.unavailable": Code(
            "the device or service does not sign now",
            "check that it is present and running, then try again",
        ),
        "structured.duplicate": Code(
            "a structured field gives a member or parameter twice",
            "send it once",
        ),
        "structured.malformed": Code(
            "a field is not in the form of structured fields",
            "write it as RFC 9651 has it",
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
        "token.decided": Code(
            "the customer has decided about this access",
            "request access with a new token",
        ),
        "token.malformed": Code(
            "an access token or uuid is not 20 to 40 letters and digits",
            "make it of 32 hexadecimal digits without hyphens",
        ),
        "token.refused": Code(
            "the access token gives no access: it is unknown, not granted, ended, of another API key or for another service",
            "request access, and wait for the callback",
        ),
        "token.reuse": Code(
            "the access token was used to request access to another account",
            "make a new token for each request",
        ),
        "token.unknown": Code(
            "no access was requested with this token on this host",
            "request access first; test and live hosts have tokens of their own",
        ),
        "transaction.unknown": Code(
            "the order has no transaction with this id",
            "take the id from the order's transactions",
        ),
        "transport.busy": Code(
            "as many calls are under way as may be",
            "look for a handler that hangs or takes long; the peer was told to come again",
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
        "trust.no-root": Code(
            "authorities stand in the trust material, but none of them is self-signed",
            "add the root, or name the file of the authorities that you believe",
        ),
        "trust.unreadable": Code(
            "the trust material cannot be read",
            "check path and files",
        ),
        "trusted-list.closed": Code(
            "the list was closed by its scheme before the time",
            "ask about a time before it was closed; a closed list grants nothing later",
        ),
        "trusted-list.conflict": Code(
            "the list contradicts itself: several purposes for a certificate that does not decide, or a key granted and not",
            "ask the scheme operator of the list",
        ),
        "trusted-list.expired": Code(
            "the list was good until a time before the one that was asked about",
            "fetch the present list (tppkit trust fetch), or ask about an earlier time",
        ),
        "trusted-list.malformed": Code(
            "this is not a trusted list: no XML in UTF-8, a document type, or no scheme information",
            "fetch the list again from where the list of the lists points",
        ),
        "trusted-list.missing": Code(
            "the list of the issuer's country is not among the lists",
            "fetch it (tppkit trust fetch --territory)",
        ),
        "trusted-list.next-update": Code(
            "the list would be good for more than six months",
            "fetch the present list; do not use this one",
        ),
        "trusted-list.no-lotl": Code(
            "the list of the lists is not in the folder",
            "add it (tppkit trust fetch), or name the signers of the lists",
        ),
        "trusted-list.no-service": Code(
            "no service of the lists issued the certificate",
            "give the intermediate authority in the same file; otherwise the certificate is not qualified",
        ),
        "trusted-list.not-claimed": Code(
            "neither the certificate nor the list says that it is qualified",
            "ask the provider for a qualified certificate",
        ),
        "trusted-list.not-granted": Code(
            "the service that issued the certificate had no granting status at the time",
            "do not rely on it as qualified at that time",
        ),
        "trusted-list.not-issuer": Code(
            "the listed service stands above the issuer and is not listed as a root for qualified certificates",
            "the issuing authority itself must be listed",
        ),
        "trusted-list.not-lotl": Code(
            "the list is not the list of the lists",
            "check the address of the list of the lists",
        ),
        "trusted-list.not-named": Code(
            "the list of the lists does not name this list: its territory, type or operator",
            "remove the file, or fetch the present list of the lists",
        ),
        "trusted-list.not-older": Code(
            "a list of the lists that should lead to another, a pivot, is not older than that",
            "none needed; it is passed over",
        ),
        "trusted-list.not-qualified": Code(
            "the list says that the certificate is not qualified",
            "do not rely on it as qualified",
        ),
        "trusted-list.not-yet-listed": Code(
            "the service was not listed yet at the time",
            "ask about a later time; a certificate of before was not qualified",
        ),
        "trusted-list.other-key": Code(
            "the service had another key at the time",
            "do not rely on it as qualified at that time",
        ),
        "trusted-list.other-type": Code(
            "the service did not issue qualified certificates at the time",
            "do not rely on it as qualified at that time",
        ),
        "trusted-list.purpose": Code(
            "the certificate is qualified for something else, or its service is listed for something else",
            "use a certificate that is qualified for the purpose",
        ),
        "trusted-list.rollback": Code(
            "the fetched list is older than the one at hand",
            "nothing was written; find out who serves the old list",
        ),
        "trusted-list.signature": Code(
            "the list was changed after it was signed, or the signature is another's",
            "fetch the list again; do not use this one",
        ),
        "trusted-list.signature-form": Code(
            "the list's signature has not the one form that the standard allows",
            "fetch the list again; do not use this one",
        ),
        "trusted-list.signer": Code(
            "the list is signed by someone who is not expected to",
            "fetch the present list of the lists; where that is the one, compare its signer with the Official Journal",
        ),
        "trusted-list.signer-validity": Code(
            "the list was issued outside the validity of its signer's certificate, or after its signer was retired",
            "fetch the present list",
        ),
        "trusted-list.superseded": Code(
            "a newer list of the same territory is in the folder",
            "remove the older file",
        ),
        "trusted-list.taken-over": Code(
            "another provider took the service over",
            "none needed; the other provider answers for it now",
        ),
        "trusted-list.too-large": Code(
            "the list has more bytes, elements, attributes or namespaces than any list needs",
            "fetch the list again; do not use this one",
        ),
        "trusted-list.unknown-criteria": Code(
            "the list describes certificates of the service in a way that is not understood",
            "ask for support of these criteria; until then the certificate counts as not qualified",
        ),
        "trusted-list.unknown-extension": Code(
            "a critical extension of the service is not understood",
            "ask for support of it; until then the certificate counts as not qualified",
        ),
        "trusted-list.unreadable-history": Code(
            "an earlier state of the service cannot be read, so nothing is known of the time before the state after it",
            "ask the scheme operator of the list; do not rely on the certificate as qualified at that time",
        ),
        "trusted-list.unreadable-part": Code(
            "a part of the list cannot be read and is passed over",
            "none needed unless your provider is meant; tell the scheme operator",
        ),
        "trusted-list.unsigned": Code(
            "the list is not signed",
            "fetch the list again; do not use this one",
        ),
        "usage.wrong": Code(
            "the command line cannot be understood",
            "see the command's --help",
        ),
        "vault-token.unknown": Code(
            "the project has no stored card with this vault_token",
            "store the card first, with the API key of the same project",
        ),
        "vault.key": Code(
            "the key for stored cards is not 32 bytes in base64, or is not the one that the cards were stored with",
            "give the key that they were stored with in TPPKIT_VAULT_KEY, or keep gateway/vault.key; without it, start in a new folder",
        ),
        "wallet.merchant": Code(
            "merchantIdentifier of a wallet session is not the project id without hyphens",
            "remove the hyphens from the id of the project that the API key belongs to",
        ),
        "web.scope": Code(
            "an ASGI server opens a scope of a type that the middleware does not know",
            "open http, websocket and lifespan only",
        ),
        "web.setting": Code(
            "a setting of the middleware is out of its range",
            "see the message",
        ),
        "web.unverified": Code(
            "nothing of this request is verified",
            "mount the seal middleware before the handler, and demand a seal of this endpoint",
        ),
        "webhook.path": Code(
            "webhooks would be received at a path that can be guessed, or that is none",
            "take one from make_webhook_path(), and keep it",
        ),
    }
)
