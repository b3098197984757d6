"""What part A of the PSD2 document leaves open about authentication, errors and payments."""

from __future__ import annotations

from tppkit.protocol.assumptions.row import Assumption

# fmt: off
PAYMENTS: tuple[Assumption, ...] = (
    Assumption(
        "key-id", "psd2", "the form of keyId",
        "SN=<serial in hexadecimal>,CA=<issuer as RFC 4514 text, percent-encoded>; serial compared as a number, issuer as a parsed name",
        "the NextGenPSD2 guidelines 1.3.8 section 12.2 have this form, and the document follows that convention",
        "seals.SealProfile.key_id",
    ),
    Assumption(
        "signature-format", "psd2", "which draft the Signature header follows",
        "draft-cavage-http-signatures-10: its signing string, and (request-target) for the request target",
        "its parameters are keyId, algorithm, headers and signature; the Berlin Group cites it", "httpsig.cavage",
    ),
    Assumption(
        "duplicate-parameters", "psd2", "a duplicate parameter of the Signature header",
        "refused", "draft-cavage-10 uses the last and -12 refuses; parsers that disagree allow attacks", "httpsig.cavage",
    ),
    Assumption(
        "signature-algorithms", "psd2", "the signature algorithms",
        "rsa-sha256 and rsa-sha512 (PKCS#1 v1.5), ecdsa-sha256 on P-256, ecdsa-sha384 on P-384 (DER); the certificate's key decides",
        "the registry of draft-cavage-10; the guidelines allow SHA-256 and SHA-512 only, so their row has no ecdsa-sha384",
        "httpsig.algorithms.ALGORITHMS",
    ),
    Assumption(
        "digest-algorithms", "psd2", "whether a Digest header may have other hashes than SHA-256",
        "yes: SHA-256 is required, in any case; an additional SHA-512 must fit the body too, other algorithms are ignored",
        "section 4 has SHA-256 only; RFC 3230 sections 4.1.1 and 4.3.2 make the header a list of case-insensitive names",
        "seals.SealProfile.digest_required",
    ),
    Assumption(
        "authorization-number", "psd2", "which organizationIdentifiers are the regulator-issued authorisation number",
        "those of the scheme PSD whose country and authority are the NCAId of the certificate's PSD2 statement; a seal may lack the"
        " statement, and then only scheme and syntax are checked",
        "TS 119 495 GEN-5.2.1-3 has the form, GEN-5.2.3-4 the comparison; section 5 requires roles in the website certificate only",
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
        " fails instead for a certificate that is absent, outside its validity, of an unknown authority, or not for TLS clients; 401"
        " remains for one that is revoked, is no QWAC, or names an organisation that is not accepted",
        "guidelines 1.3.8 section 14.11; the document says: rejected at the connection level (401)",
        "sandbox up --strict; protocol.psd2.errors",
    ),
    Assumption(
        "tls-versions", "psd2", "which versions of TLS a connection may use",
        "TLS 1.2 with ECDHE and AEAD, or TLS 1.3, on both sides",
        "part B has TLS 1.2 or higher for the earlier interface; RFC 8996 deprecates older versions, RFC 9325 the other ciphers",
        "client.tls_context, sandbox.tls",
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
        "one organisation's, for its sealed POSTs; the same body for another product is a reuse too, 409; the hour starts with the first"
        " use",
        "two providers cannot know of each other's ids", "sandbox.host.Host, web.replay.ReplayGuard",
    ),
    Assumption(
        "covered-date", "psd2", "whether a request whose seal also covers Date can be repeated when that Date is old",
        "yes, within the hour, if the request was answered: it gets the kept answer. Any other request needs a Date within the clock skew",
        "section 4 of part A: the same id and body replays the original 201 for an hour, and the same bytes have the same Date",
        "sandbox.host.Host, web.replay.ReplayGuard",
    ),
    Assumption(
        "request-in-progress", "psd2", "the answer to a repeated request while the first is not answered yet",
        "409 STATUS_INVALID", "it does not reuse the id, and carrying it out twice is worse than another repetition",
        "protocol.psd2.errors",
    ),
    Assumption(
        "not-now", "psd2", "the answer when evidence, the database or the memory of request ids cannot be written",
        "503 SERVICE_UNAVAILABLE", "the request was valid but not handled; the guidelines name no code for it",
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
        "only with a setting of the bank: when the customer opens the payment, and from there as from RCVD; it cannot be cancelled then",
        "the table shows RCVD to ACSP, and the meaning of ACTC is: approval in progress", "BankRules.technical_validation",
    ),
    Assumption(
        "execution-time", "psd2", "how long execution takes",
        "10 seconds after approval on the instant rail, one hour as a normal transfer, on every day of the week; also one hour after"
        " approval for a SEPA payment that loses the instant rail in between",
        "the instant scheme's limit; a time that a virtual clock passes for the other", "BankRules.instant_execution, normal_execution",
    ),
    Assumption(
        "inactivity", "psd2", "the exact inactivity limit (about 5 minutes) and what refreshes it",
        "300 seconds after initiation or the last use of the approval pages; the page for the phone asks every 3 seconds while it is"
        " visible, which is a use; what the page with the code asks by itself is none",
        "section 3 of part A: the window stays alive during active approval", "BankRules.inactivity",
    ),
    Assumption(
        "approval-opened", "psd2", "what counts as opening the approval link",
        "a GET of the link or of the page for the phone, what the latter asks by itself, and a form that approves or declines; not what"
        " the page with the code asks by itself (/state, ?returning), a form with another action, HEAD, loading ahead"
        " (Sec-Purpose, Purpose, X-Moz, X-Purpose), or a program that is known to make previews of links",
        "the customer has seen nothing then, and the provider can still cancel", "sandbox.psd2.pages",
    ),
    Assumption(
        "approval-return", "psd2", "which browser goes to TPP-Redirect-URI",
        "the one in which the customer decides, and the one that shows the code and waits; inside an iframe, the iframe",
        "section 4 of part A names the customer's browser, and that of the link may be another than the phone's", "sandbox.psd2.pages",
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
        "creditor-name", "psd2", "the length of creditorName, and the characters of it and of remittanceInformationUnstructured",
        "1 to 70 characters; both texts are printable",
        "the SEPA scheme's limit (EPC rulebook AT-21); the customer reads both before approving",
        "protocol.psd2.models.PaymentInitiation",
    ),
    Assumption(
        "iban-form", "psd2", "which IBANs a request can have",
        "electronic form, a country of the IBAN registry and its length, right check digits; else 400 FORMAT_ERROR",
        "ISO 13616; a bank cannot pay another one", "_iban; protocol.psd2.models.AccountReference",
    ),
    Assumption(
        "own-iban-unknown", "psd2", "the state of a payment to an IBAN of this bank that has no account",
        "RCVD and ACSP as for any other; at execution it becomes RJCT, and a payment of the legacy interface failed",
        "failed is a meaning of RJCT, and a refusal at initiation would show providers which accounts the bank has",
        "sandbox.bank.ledger.book_transfer",
    ),
    Assumption(
        "unknown-fields", "psd2", "what fields of a request, and query parameters, do that the document does not list",
        "requests of all three interfaces reject such fields when they are built, unless unknown_fields= allows them. The bank accepts them"
        " without effect and logs their names; payment details also show them, numbers with their text, but no names of the bank's answers."
        " It ignores such query parameters",
        "section 1 of part A: fields not listed must not be relied on; the guidelines have many more", "protocol.wire.WireModel",
    ),
    Assumption(
        "instant-cap", "psd2", "the instant amount cap, and which banks cannot be reached",
        "100000.00 EUR inclusive; a bank is known by the country of its IBAN; all are reachable until POST /instant says otherwise",
        "the cap that SEPA instant had until 2025; it makes PRODUCT_INVALID reachable", "BankRules.instant_cap, instant_unreachable",
    ),
    Assumption(
        "refusal-echo", "psd2", "what an answer means that does not echo X-Request-ID, such as a proxy's 502",
        "the outcome of the request is unknown, whatever the status: never a refusal", "section 2 of part A: echoed on every response",
        "client.calls",
    ),
    Assumption(
        "client-repeats", "psd2", "which requests a client sends again, and when",
        "GET and the two POSTs with the same bytes, after 429, 503 or a lost connection, at most three times in all; it waits as"
        " Retry-After says, and gives up if that is more than 60 seconds",
        "GET changes nothing, a POST with the same X-Request-ID is carried out once; the result of a DELETE can be asked for",
        "client.answers.pause_before_repeat_s",
    ),
    Assumption(
        "uncovered-headers", "psd2", "whether TPP-Redirect-URI and PSU-IP-Address must be covered by the seal",
        "no: the sandbox uses both also if they are not signed",
        "section 4 of part A has a minimum", "seals.profiles.PSD2_V1",
    ),
    Assumption(
        "other-codes", "psd2", "codes and statuses for malformed requests and unknown places",
        "400 FORMAT_ERROR for a malformed or doubled header, query parameter or X-Request-ID, a malformed body, and a body of GET or"
        " DELETE (413 when too large, 411 without a length, 408 when too late), 404 PRODUCT_UNKNOWN for a product,"
        " 404 RESOURCE_UNKNOWN for a path, 405 SERVICE_INVALID for a method, 500 INTERNAL_SERVER_ERROR for a fault of the sandbox",
        "guidelines 1.3.8 section 14.11 where it has them", "protocol.psd2.errors",
    ),
    Assumption(
        "request-id-echo", "psd2", "what answers echo where X-Request-ID is absent, doubled or no UUID",
        "nothing", "there is no id to echo, and a header must not repeat any text that it is sent", "sandbox.host.Host",
    ),
    Assumption(
        "seal-certificate-codes", "psd2", "the code for a seal certificate that is not trusted",
        "401 CERTIFICATE_INVALID, CERTIFICATE_EXPIRED or CERTIFICATE_REVOKED, as for the website certificate; SIGNATURE_INVALID for"
        " everything else of a seal",
        "guidelines 1.3.8 section 14.11 name certificates apart", "protocol.psd2.errors",
    ),
    Assumption(
        "refused-request-id", "psd2", "whether a refused request uses up its X-Request-ID",
        "no: only a 201 is remembered", "a provider corrects the request and sends it again", "sandbox.host.Host",
    ),
    Assumption(
        "path-form", "psd2", "which spellings of a path are an endpoint's",
        "the row's own text only; a parameter may be percent-encoded, but decoded once it has only A-Z a-z 0-9 - . _ ~ and is no dot"
        " segment; all else is 404",
        "the seal covers the target as on the wire, so the target is looked up without changes; other servers cut a parameter at a"
        " semicolon or decode it twice",
        "protocol.endpoint.Endpoint.match",
    ),
    Assumption(
        "redirect-uri", "psd2", "which addresses TPP-Redirect-URI can have",
        "https, an application's own scheme, and http on loopback, at most 2048 characters of printable ASCII; never javascript, data,"
        " file, blob, about, intent, market, itms-services, urn and other schemes that a browser or system reads itself",
        "applications get their users back by their own scheme (RFC 8252); a script or a file must not run in the bank's name",
        "protocol.psd2.rules.parse_redirect_uri",
    ),
    Assumption(
        "psu-ip-address", "psd2", "the form of PSU-IP-Address",
        "one IPv4 or IPv6 address without port, brackets or zone; anything else is 400 FORMAT_ERROR wherever the header is used: payment"
        " initiation, consent creation, account data; 0.0.0.0, :: and loopback addresses are accepted and do not lift the limit of"
        " unattended reads",
        "nonsense must not lift it, and no customer of a provider has these addresses", "protocol.psd2.rules.parse_psu_ip_address",
    ),
    Assumption(
        "no-matching-account", "psd2", "the state of a payment or consent whose named account the customer does not have",
        "unchanged: this customer cannot approve it, and it stays RCVD or received until another customer decides or it expires",
        "section 2 of part A: the approving customer's account must match; a refusal would end it for the right customer too",
        "sandbox.psd2",
    ),
    Assumption(
        "own-account", "psd2", "whether an account can pay itself",
        "no: it cannot be chosen for such a payment", "no money would move", "sandbox.bank.customers.fitting",
    ),
    Assumption(
        "available-balance", "psd2", "when the money of a payment is checked and taken",
        "at approval: it lowers interimAvailable, also BALANCE of the legacy interface, until it is booked or fails; an approval that the"
        " available money of its currency does not cover is refused, and the payment stays RCVD; if the money is missing at execution"
        " all the same, it becomes RJCT",
        "section 2 of part A: interimAvailable is spendable now; failed is a meaning of RJCT, and the customer can choose another account",
        "sandbox.bank.ledger.start_transfer, book_transfer",
    ),
)
# fmt: on
