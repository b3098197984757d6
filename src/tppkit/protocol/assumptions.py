"""Every choice that the two documents leave open: what is open, what we do, why, and how to change it.

Code that acts on a row names it in a comment; a test sees that every named row exists.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Assumption:
    """One open point.

    Attributes:
        id: short name.
        interface: `psd2`, `legacy` or `gateway`.
        open: what the document does not show.
        choice: what we do.
        why: the reason.
        change: how to have it otherwise.
    """

    id: str
    interface: str
    open: str
    choice: str
    why: str
    change: str


# fmt: off
ASSUMPTIONS: tuple[Assumption, ...] = (
    Assumption(
        "key-id", "psd2", "the form of keyId",
        "SN=<serial in hexadecimal>,CA=<issuer as RFC 4514 text, percent-encoded>; serial compared as a number, issuer as a parsed name",
        "the NextGenPSD2 guidelines 1.3.8 section 12.2 have this form, and the document follows that convention",
        "seals.SealProfile.key_id",
    ),
    Assumption(
        "dialects", "psd2", "that banks differ from the document",
        "the document's rules under the profile psd2-v1, which is the default; one row for each other bank or gateway, whose source "
        "is named, and whose gaps are filled from the guidelines and named too",
        "a provider calls many banks, and no two of them agree", "seals.PROFILES; dataclasses.replace",
    ),
    Assumption(
        "duplicate-parameters", "psd2", "a parameter of the Signature header that is given twice",
        "refused", "draft-cavage-10 takes the last and -12 refuses; two readers that differ are an attack", "httpsig.cavage",
    ),
    Assumption(
        "meaning-of-hs", "psd2", "what the algorithm hs2019 means for an RSA key",
        "nothing in the document's profile; RSASSA-PSS with SHA-512 under cavage-12", "the registry of draft-cavage-12",
        "seals.SealProfile.algorithms",
    ),
    Assumption(
        "clock-skew", "psd2", "how far a covered Date, and the times of signing and of expiry, may be off; age and life are the row's",
        "five minutes", "what the field's specifications of signed requests take", "seals.SealPolicy(clock_skew=)",
    ),
    Assumption(
        "age-of-a-date", "psd2", "for how long a seal whose only time is a covered Date counts; then a provider makes a new one for the "
        "same request",
        "five minutes", "as far as clock-skew lets a Date be off", "client.credentials.DATE_LIFETIME",
    ),
    Assumption(
        "pem-in-header", "psd2", "how a certificate in PEM stands in a header, which holds no line break",
        "without its line breaks when written; spaces in their places are read", "both are seen", "seals.CertificateForm",
    ),
    Assumption(
        "signature-algorithms", "psd2", "the signature algorithms",
        "rsa-sha256 and rsa-sha512 (PKCS#1 v1.5), ecdsa-sha256 on P-256, ecdsa-sha384 on P-384 (DER); the certificate's key decides",
        "the registry of draft-cavage-10; the guidelines allow SHA-256 and SHA-512 only, so their row has no ecdsa-sha384",
        "httpsig.algorithms.ALGORITHMS",
    ),
    Assumption(
        "digest-algorithms", "psd2", "whether a Digest header may hold other hashes beside SHA-256",
        "yes: SHA-256 is demanded, in any spelling; a SHA-512 beside it must fit the body too, other algorithms are ignored",
        "section 4 has SHA-256 only; RFC 3230 sections 4.1.1 and 4.3.2 make the header a list of case-insensitive names",
        "seals.SealProfile.digest_required",
    ),
    Assumption(
        "authorization-number", "psd2", "which organizationIdentifiers are the regulator-issued authorisation number",
        "those of the scheme PSD whose country and authority are the NCAId of the certificate's PSD2 statement; a seal may lack the"
        " statement and is then judged by scheme and syntax",
        "TS 119 495 GEN-5.2.1-3 has the form, GEN-5.2.3-4 the comparison; section 5 asks for roles in the website certificate only",
        "certificates.OrganizationPolicy",
    ),
    Assumption(
        "signature-status", "psd2", "the HTTP status of SIGNATURE_MISSING and SIGNATURE_INVALID",
        "401", "guidelines 1.3.8 section 14.11",
        "protocol.psd2.errors",
    ),
    Assumption(
        "error-body", "psd2", "the error body's shape",
        '{"tppMessages": [{"category": "ERROR", "code": …, "text": …}]} as application/json',
        "guidelines 1.3.8 section 4.13, whose convention the document follows", "protocol.psd2.errors",
    ),
    Assumption(
        "certificate-codes", "psd2", "the codes for a certificate that is refused",
        "401 with CERTIFICATE_MISSING, CERTIFICATE_EXPIRED, CERTIFICATE_REVOKED or CERTIFICATE_INVALID; in strict mode the TLS handshake"
        " fails instead, but for a revocation",
        "guidelines 1.3.8 section 14.11; the document says: rejected at the connection level (401)",
        "sandbox up --strict; protocol.psd2.errors",
    ),
    Assumption(
        "role-status", "psd2", "the answer to a certificate without the endpoint's role",
        "403 ROLE_INVALID", "the provider is known but not allowed; the guidelines list the code under 401",
        "protocol.psd2.errors",
    ),
    Assumption(
        "unknown-payment", "psd2", "the answer to a paymentId that is not the caller's",
        "403 RESOURCE_UNKNOWN, the same for one that does not exist", "guidelines 1.3.8 section 14.11: resource in the path",
        "protocol.psd2.errors",
    ),
    Assumption(
        "cancel-code", "psd2", "the code of the 409 to a DELETE that comes too late",
        "CANCELLATION_INVALID", "the guidelines' code for it (there with 405)",
        "protocol.psd2.errors",
    ),
    Assumption(
        "request-id-scope", "psd2", "whose X-Request-ID must not be used again",
        "one organisation's, for its sealed POSTs; method, target and body are compared; the hour starts with the first use",
        "two providers cannot know of each other's ids", "sandbox.host.Host, web.replay.ReplayGuard",
    ),
    Assumption(
        "request-in-progress", "psd2", "the answer to a repeated request while the first is not answered yet",
        "409 STATUS_INVALID", "it is no reuse of the id, and doing it twice is worse than asking again",
        "protocol.psd2.errors",
    ),
    Assumption(
        "not-now", "psd2", "the answer when evidence, the database or the memory of request ids cannot be written",
        "503 SERVICE_UNAVAILABLE", "the request was right and not handled; the guidelines name no code for it",
        "protocol.psd2.errors",
    ),
    Assumption(
        "retained-repeats", "psd2", "whether the signature of a repeated request is retained again",
        "once for one request and one answer; repeats are counted",
        "a repeat proves nothing new, and one captured request would fill the archive", "sandbox.evidence.Evidence.keep",
    ),
    Assumption(
        "request-id-form", "psd2", "which UUIDs are taken as X-Request-ID",
        "any version, 8-4-4-4-12 hexadecimal digits in either case, echoed as sent", "RFC 9562 section 4",
        "protocol.psd2.rules.parse_request_id",
    ),
    Assumption(
        "payment-declined", "psd2", "the move of a payment that the customer declines",
        "RCVD to RJCT", "the meaning of RJCT names declined; no other state is left", "protocol.psd2.payment.PAYMENT",
    ),
    Assumption(
        "payment-actc", "psd2", "the move into ACTC",
        "none: approval in the sandbox is one step, so a payment goes from RCVD to ACSP; clients take ACTC as not final",
        "the table shows RCVD to ACSP", "protocol.psd2.payment.PAYMENT",
    ),
    Assumption(
        "execution-time", "psd2", "how long execution takes",
        "1 second after approval in the sandbox", "long enough to see ACSP, short enough for tests", "PaymentRules.execution",
    ),
    Assumption(
        "inactivity", "psd2", "the exact inactivity limit (about 5 minutes) and what refreshes it",
        "300 seconds after initiation or the last opening of the approval link", "section 3 of part A", "PaymentRules.inactivity",
    ),
    Assumption(
        "payment-currency", "psd2", "which currencies a SEPA payment takes",
        "EUR only, else 400 FORMAT_ERROR", "SEPA credit transfers are in euro (EPC rulebook)", "protocol.psd2.models.PaymentInitiation",
    ),
    Assumption(
        "payment-amount", "psd2", "the form and range of instructedAmount.amount",
        "1 to 9 digits without leading zeros, at most two decimals, from 0.01 to 999999999.99",
        "the SEPA scheme's range (EPC rulebook AT-04)", "protocol.psd2.models.PaymentInitiation",
    ),
    Assumption(
        "creditor-name", "psd2", "the length of creditorName", "1 to 70 characters, printable",
        "the SEPA scheme's limit (EPC rulebook AT-21)",
        "protocol.psd2.models.PaymentInitiation",
    ),
    Assumption(
        "instant-cap", "psd2", "the instant amount cap and which banks cannot be reached",
        "100000.00 EUR; a creditor IBAN whose country is in a list (empty by default) is unreachable",
        "the cap that SEPA instant had until 2025; it makes PRODUCT_INVALID reachable", "PaymentRules.instant_cap, instant_unreachable",
    ),
    Assumption(
        "scheme-links", "psd2", "the form of the self and status links",
        "absolute paths from /psd2/v1, as section 2 says of _links; scaRedirect is a whole address",
        "section 2 of part A", "sandbox.psd2.payments",
    ),
    Assumption(
        "refusal-echo", "psd2", "what an answer means that does not echo X-Request-ID, such as a proxy's 502",
        "the outcome of the request is unknown, whatever the status: never a refusal", "section 2 of part A: echoed on every response",
        "client.calls",
    ),
    Assumption(
        "instant-execution", "psd2", "what happens when the instant product can no longer be kept at execution",
        "nothing in the sandbox: cap and reachability are settings that do not change between initiation and execution",
        "the document says they are enforced again then", "PaymentRules",
    ),
    Assumption(
        "debtor-account", "psd2", "how debtorAccount constrains the approving customer",
        "the sandbox has no customers' accounts yet, so whoever approves matches", "approval in the sandbox is one button",
        "sandbox.psd2.payments",
    ),
    Assumption(
        "bank-zone", "psd2", "the time zone of the bank's days",
        "Europe/Vilnius, for booking dates, limits per day and the 180 days of a consent", "the account holder's bank is in Lithuania",
        "sandbox.bank.zone.BANK_ZONE",
    ),
    Assumption(
        "available-balance", "psd2", "when a payment lowers the balance, and when funds are checked",
        "both at execution: what is pending reserves nothing, and a payment without funds at its execution is RJCT",
        "section 3 has one balance, interimAvailable, and moves into RJCT beside those of the customer", "sandbox.bank.ledger",
    ),
    Assumption(
        "uncovered-headers", "psd2", "whether TPP-Redirect-URI and PSU-IP-Address must be covered by the seal",
        "they need not be; the sandbox takes TPP-Redirect-URI from the request as it came: https, or http on loopback",
        "section 4 lists only Digest, X-Request-ID and the target", "seals.profiles.PSD2_V1",
    ),
    Assumption(
        "uncovered-request-id", "psd2", "what names a request in a dialect whose seals cover no id of it",
        "the sandbox takes it as it came from the dialect's own header, or from X-Request-ID where the dialect has none; without one the "
        "request is refused",
        "section 4 requires X-Request-ID on every request, and a payment that is sent twice must be one",
        "seals.SealProfile.request_id",
    ),
    Assumption(
        "other-codes", "psd2", "codes and statuses for malformed requests and unknown places",
        "400 FORMAT_ERROR for a malformed or doubled header, body or X-Request-ID (413 when too large), 404 PRODUCT_UNKNOWN for a product,"
        " 404 RESOURCE_UNKNOWN for a path, 405 SERVICE_INVALID for a method, 500 INTERNAL_SERVER_ERROR when the sandbox cannot store",
        "guidelines 1.3.8 section 14.11 where it has them", "protocol.psd2.errors",
    ),
    Assumption(
        "seal-certificate-codes", "psd2", "the code for a seal certificate that is not believed",
        "401 CERTIFICATE_INVALID, CERTIFICATE_EXPIRED or CERTIFICATE_REVOKED, as for the website certificate; SIGNATURE_INVALID for"
        " everything else of a seal",
        "guidelines 1.3.8 section 14.11 name certificates apart", "protocol.psd2.errors",
    ),
    Assumption(
        "refused-request-id", "psd2", "whether a refused request uses up its X-Request-ID",
        "no: only a 201 is remembered", "a provider mends the request and sends it again", "sandbox.host.Host",
    ),
    Assumption(
        "path-form", "psd2", "which spellings of a path are an endpoint's",
        "the row's own text only; a parameter may be percent-encoded, but decoded once it has only A-Z a-z 0-9 - . _ ~ and is no dot"
        " segment; all else is 404",
        "the seal covers the target as it stood on the wire, so nothing is made of it before it is looked up; other servers cut a"
        " parameter at a semicolon or decode it twice",
        "protocol.endpoint.Endpoint.match",
    ),
    Assumption(
        "qr-account", "legacy", "the form of <ACC> in payment codes",
        "an IBAN in electronic form with right check digits, of any country and of 15 to 34 characters, or a phone number of 7 to 15"
        " digits with or without +; what begins with two letters is meant as an IBAN",
        "section 4 of part B has accounts as phone number or IBAN; E.164 has at most 15 digits", "qr.payment",
    ),
    Assumption(
        "qr-amount", "legacy", "the form of <AMT> in payment codes",
        "the major unit, 1 to 9 digits without leading zeros, a point and one or two decimals if any, above zero, in any currency;"
        " <CCC> is a code of ISO 4217",
        "section 2 of part B has currency codes and decimal amounts; the range is that of payment-amount", "qr.payment",
    ),
    Assumption(
        "qr-type", "legacy", "the values of <TYPE> in payment codes, and which fields may be empty",
        "any text, kept as it came; <NAME>, <TYPE> and <MSG> may be empty, their colons stay",
        "section 4 of part B: name and message are optional where payments are initiated otherwise", "qr.payment",
    ),
    Assumption(
        "qr-characters", "legacy", "the characters of codes",
        "what a person can see: no control, bidi, zero-width, unassigned or private-use characters; no field of a payment"
        " code is blank or begins with a mark",
        "people compare what they see with what they approve", "qr.characters",
    ),
    Assumption(
        "qr-length", "legacy", "the lengths of codes and of their fields",
        "at most 2330 bytes of UTF-8 for the whole text, no limit for one field; so a callback address has at most 2332 characters",
        "what the largest code holds in byte mode at level M with its character set named", "qr.characters, _addresses.MAX_ADDRESS",
    ),
    Assumption(
        "qr-charset", "legacy", "the character set inside the QR code",
        "UTF-8, named (ECI 26) where there is more than ASCII; read only where the text is UTF-8 and nothing says otherwise",
        "ISO/IEC 18004 counts unnamed bytes as Latin-1, and readers guess", "qr.picture, qr.reading",
    ),
    Assumption(
        "qr-address", "legacy", "the form of the callback address in login codes, and of addresses in scan links",
        "https, a host name in ASCII or an IP address, a port if any, path and query in ASCII with percent-encoded UTF-8; no user"
        " name, fragment or dot segment, nothing invisible in encoded form; in login codes also a lower-case host, a path, and"
        ' decoded no space or one of % { } # \\ " < >',
        "the address is signed as a text, so clients must not change it on the way",
        "_addresses.parse_address and parse_signed_address; CallbackAddress goes by the second too",
    ),
    Assumption(
        "scan-encoding", "legacy", "the encoding of the code in scan links",
        "percent-encoded UTF-8; all but A-Z a-z 0-9 - . _ ~ is encoded when written; bare + & = are refused when read",
        "RFC 3986; as a form, + would be a space and & and = would separate parameters", "qr.scan",
    ),
    Assumption(
        "scan-content", "legacy", "which codes a scan link may hold",
        "payment and login codes, which must be right ones, and any other text as it is",
        "the document recommends a callback-URI format and does not show it", "qr.scan",
    ),
    Assumption(
        "callback-request-id", "legacy", "which characters a requestid has, and how many",
        "1 to 64 letters, digits, - and _", "UUIDs and the usual tokens fit; a colon or slash would let one signature be read in two ways",
        "callbacks.RequestIds; never to : or /",
    ),
    Assumption(
        "callback-url-form", "legacy", "whether the signed URL is percent-encoded or plain UTF-8",
        "the URL as received is tried, then as configured, then percent-decoded",
        "the document says full UTF-8 URL, and servers receive it encoded",
        "nothing to set: each form is tried, and `explain_callback` names the one that fits",
    ),
    Assumption(
        "callback-time", "legacy", "where the time stamps for protocol security of revision 1.3 travel",
        "nothing that is signed is read as a time of sending; timeStamp of <TRAN> is the operation's; the inbox's time window is for"
        " receivers that know where their service puts it", "a time in the wrong place would refuse good callbacks or prove nothing",
        "callbacks.InboxSettings.window",
    ),
    Assumption(
        "callback-repeats", "legacy", "whether a repeated callback has the same requestid",
        "either: the same requestid at the same address is the same callback, another one is told apart by the record's id and ver",
        "the document says a requestid is used once for an address, and that callbacks are repeated",
        "callbacks.VerifiedCallback.replay_key",
    ),
    Assumption(
        "callback-answers", "legacy", "which answers end the repetition of a callback, and how long the service waits for one",
        "200 acknowledges; 400, 403, 408, 411 and 413 refuse and 503 asks for a repetition, though each may be repeated or not; an answer"
        " within 4 seconds",
        "usual in HTTP; the payment gateway waits 4 seconds for its first answer, and only an acknowledged callback is in safe hands",
        "web.callback_gate, web.callbacks.TIMEOUT_S",
    ),
    Assumption(
        "callback-unreadable", "legacy", "whether the service signs bodies that differ from the documented fields",
        "it may: such a callback is acknowledged and kept as failed, until an operator releases or discards it",
        "the signature proves that the service sent it, and a refusal would lose the outcome of a payment",
        "callbacks.Inbox; `verify_callback` alone rejects it",
    ),
    Assumption(
        "callback-repeat-span", "legacy", "for how long a callback is repeated",
        "at most seven days: so long the inbox remembers requestids that are done; versions of records and grants 400 days",
        "a span longer than any usual schedule costs little room; a payer can report a payment for 13 months",
        "callbacks.Retention",
    ),
    Assumption(
        "same-version", "legacy", "whether a record can come again with the same ver, another requestid and other content",
        "no: with the same content (JSON names in any order at any depth, EUR1.50 as EUR1.5) it is a repetition; with another it is"
        " acknowledged, has no effect and is"
        " told as version-conflict: in the receipt, to the evidence, in the log",
        "a ver stands for one state of a record, so only who reads the record at the service knows which content holds; a refusal"
        " would only bring the same again",
        "callbacks.admission, Outcome.VERSION_CONFLICT",
    ),
    Assumption(
        "access-repeats", "legacy", "whether the same token and exp under another requestid are a second grant",
        "no, a repetition: acknowledged and without effect; two logins with the same body are two logins",
        "a token is granted once; a customer can log in at the same code again",
        "callbacks.admission",
    ),
    Assumption(
        "callback-signature-case", "legacy", "the case of the hexadecimal digits of a signature",
        "lower case only", "one text for one signature; most software writes lower case", "callbacks.verify.read_signature",
    ),
    Assumption(
        "callback-body", "legacy", "whether white space may stand before the object of a POST",
        "no: the first byte is {", "it ends the URL, so that the signed bytes have one reading", "callbacks.message.require_body",
    ),
    Assumption(
        "callback-login-address", "legacy", "the form of the addresses in LOGIN codes",
        "configured like the others; one that ends with {token} takes 20 to 40 letters and digits of the receiver's choice",
        "a receiver must know which session a code was made for, and nobody else's address may be taken",
        "callbacks.CallbackAddress",
    ),
    Assumption(
        "access-expiry", "legacy", "the time zone of exp", "UTC", "every other time of the interface is in UTC",
        "protocol.legacy.AccessGranted",
    ),
    Assumption(
        "amount-data", "legacy", "the exact form of amount data",
        "three upper-case letters, at most one space, an optional sign, 1 to 15 digits and at most 6 decimals; written as EUR-12.50",
        "section 2 of part B: a currency code followed by a signed decimal amount", "protocol.legacy.Amount",
    ),
    Assumption(
        "tran-time-stamp", "legacy", "the unit of timeStamp",
        "seconds since 2000-01-01 00:00:00 UTC, the document's type [T]; kept as it came",
        "section 2 of part B defines no other time of type integer", "protocol.legacy.Transaction.operated_at",
    ),
    Assumption(
        "tran-fields", "legacy", "which fields of <TRAN> must be there, and how strictly they are read",
        "all that are not marked optional; ids, ver, timeStamp and amounts strictly, descriptions as they came; unknown fields are kept",
        "an outcome must not be lost because of a description", "protocol.legacy.Transaction",
    ),
    Assumption(
        "tlc-values", "legacy", "the values of tlc", "any printable text", "section 3 of part B: not shown", "protocol.legacy.Transaction",
    ),
)
# fmt: on
