"""What part B of the PSD2 document leaves open."""

from __future__ import annotations

from tppkit.protocol.assumptions.row import Assumption

# fmt: off
LEGACY: tuple[Assumption, ...] = (
    Assumption(
        "qr-account", "legacy", "the form of <ACC> in payment codes",
        "an IBAN in electronic form with its country's length and correct check digits, or a phone number of 7 to 15"
        " digits with or without +; a text that begins with two letters is read as an IBAN",
        "section 4 of part B has accounts as phone number or IBAN; E.164 has at most 15 digits", "qr.payment",
    ),
    Assumption(
        "qr-amount", "legacy", "the form of <AMT> in payment codes",
        "the major unit, 1 to 9 digits without leading zeros, a point and decimals if any, at most those of the currency (two where it has"
        " no minor unit), above zero; <CCC> is a code of ISO 4217",
        "section 2 of part B has currency codes and decimal amounts; the range is that of payment-amount", "qr.payment",
    ),
    Assumption(
        "qr-type", "legacy", "the values of <TYPE> in payment codes, and which fields may be empty",
        "any text, kept unchanged; <NAME>, <TYPE> and <MSG> may be empty, but their colons are required; the sandbox pays a code whose"
        " fields fit tx-texts, with <TYPE> as tcc",
        "section 4 of part B: name and message are optional in other payment requests", "qr.payment",
    ),
    Assumption(
        "qr-characters", "legacy", "the characters of codes",
        "visible characters: no control, bidi, zero-width, unassigned or private-use characters; no field of a payment"
        " code is blank or begins with a combining mark",
        "people compare what they see with what they approve", "qr.characters",
    ),
    Assumption(
        "qr-length", "legacy", "the lengths of codes and of their fields",
        "at most 2330 bytes of UTF-8 for the whole text, no limit for one field; so a callback address has at most 2332 characters",
        "the capacity of the largest code in byte mode at level M with its character set named", "qr.characters, _addresses.MAX_ADDRESS",
    ),
    Assumption(
        "qr-charset", "legacy", "the character set inside the QR code",
        "UTF-8, named (ECI 26) if there is more than ASCII; read only if the text is UTF-8 and no other character set is named",
        "ISO/IEC 18004 reads unnamed bytes as Latin-1, and readers guess", "qr.picture, qr.reading",
    ),
    Assumption(
        "qr-address", "legacy", "the form of the callback address in login codes, and of addresses in scan links",
        "https, a host name in ASCII (also with underscores) or an IP address, a port if any, path and query in ASCII with"
        " percent-encoded UTF-8; no user name, fragment or dot segment,"
        " nothing invisible in encoded form; in login codes also a lower-case host, a path, and"
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
        "scan-content", "legacy", "which codes a scan link may contain",
        "payment and login codes, which must be valid, and any other text",
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
        "no setting is needed: each form is tried, and `explain_callback` names the one that fits",
    ),
    Assumption(
        "callback-time", "legacy", "where the time stamps for protocol security of revision 1.3 travel",
        "no signed value is read as a time of sending; timeStamp of <TRAN> is the operation's; the inbox's time window is for"
        " receivers that know where their service puts it", "a wrong time would refuse valid callbacks or prove nothing",
        "callbacks.InboxSettings.window",
    ),
    Assumption(
        "callback-repeats", "legacy", "whether a repeated callback has the same requestid",
        "either: the same requestid at the same address is the same callback, others are distinguished by the record's id and ver",
        "the document says a requestid is used once for an address, and that callbacks are repeated",
        "callbacks.VerifiedCallback.replay_key",
    ),
    Assumption(
        "delivery-schedule", "legacy", "when the service repeats a callback that is not acknowledged, and when it gives up",
        "the sandbox: at once, then after 10 seconds, 1, 5 and 15 minutes and each hour; after 24 hours it is given up; receivers do not"
        " depend on it", "the document says repeated without a schedule; a receiver that is down for a night misses nothing",
        "sandbox.legacy.sender.SCHEDULE",
    ),
    Assumption(
        "callback-answers", "legacy", "which answers end the repetition of a callback, and how long the service waits for one",
        "a receiver answers 200 to what it has stored or handled and to a login GET, 400, 403, 408, 411 or 413 to what it refuses, 503 to"
        " what it could not receive; the sandbox takes each 2xx within 4 seconds as the end, and repeats after every other answer, a"
        " redirect too",
        "usual in HTTP; the payment gateway waits 4 seconds for its first answer, and only a stored callback may be acknowledged",
        "web.callback_gate, web.callbacks.TIMEOUT_S, sandbox.legacy.sender",
    ),
    Assumption(
        "callback-unreadable", "legacy", "whether the service signs bodies that differ from the documented fields",
        "it may: such a callback is acknowledged and stored as failed, until an operator releases or discards it",
        "the signature proves that the service sent it, and a refusal would lose the outcome of a payment",
        "callbacks.Inbox; `verify_callback` alone rejects it",
    ),
    Assumption(
        "callback-repeat-span", "legacy", "for how long a callback is repeated",
        "at most seven days: the inbox keeps done requestids for that time; versions of records and grants for 400 days",
        "a time longer than any usual schedule costs little space; a payer can report a payment for 13 months",
        "callbacks.Retention",
    ),
    Assumption(
        "same-version", "legacy", "whether a record can come again with the same ver, another requestid and other content",
        "no: with the same content (JSON names in any order at any depth, EUR1.50 as EUR1.5) it is a repetition; with another it is"
        " acknowledged, has no effect and is"
        " reported as version-conflict: in the receipt, to the evidence, in the log",
        "a ver identifies one state of a record, so only a look at the service shows which content is right; a refusal would only"
        " cause the same repetition",
        "callbacks.entries, Outcome.VERSION_CONFLICT",
    ),
    Assumption(
        "access-repeats", "legacy", "whether the same token and exp under another requestid are a second grant",
        "no, a repetition: acknowledged and without effect; two logins with the same body are two logins",
        "a token is granted once; a customer can log in at the same code again",
        "callbacks.entries",
    ),
    Assumption(
        "callback-signature-case", "legacy", "the case of the hexadecimal digits of a signature",
        "lower case only", "one text for one signature; most software writes lower case", "callbacks.verify.read_signature",
    ),
    Assumption(
        "callback-body", "legacy", "whether white space may precede the object of a POST",
        "no: the first byte is {", "it ends the URL, so that the signed bytes are unambiguous", "callbacks.message.require_body",
    ),
    Assumption(
        "callback-login-address", "legacy", "the form of the addresses in LOGIN codes",
        "configured like the others; one that ends with {token} takes 20 to 40 letters and digits of the receiver's choice",
        "a receiver must know which session a code was made for, and must accept its own addresses only",
        "callbacks.CallbackAddress",
    ),
    Assumption(
        "login-window", "legacy", "for how long a login code is valid, and for how many logins",
        "five minutes from its creation, unless set, until the receipt of the login; for one login, after a signed GET", "a code is shown"
        " in one browser, which it logs in", "callbacks.login_codes.LoginCodes",
    ),
    Assumption(
        "access-expiry", "legacy", "the time zone of exp, and whether access includes its second",
        "the sandbox writes UTC and refuses access from that second on; a client reads UTC, unless another zone is set, and keeps the text",
        "every other time of the interface is in UTC; 90 days with their fraction cut off are over then",
        "protocol.legacy.AccessGranted.expires_at(zone)",
    ),
    Assumption(
        "amount-data", "legacy", "the exact form of amount data",
        "three upper-case letters, at most one space, an optional sign, 1 to 15 digits and at most 6 decimals; written as EUR-12.50",
        "section 2 of part B: a currency code followed by a signed decimal amount", "protocol.legacy.Amount",
    ),
    Assumption(
        "tran-time-stamp", "legacy", "the unit of timeStamp",
        "seconds since 2000-01-01 00:00:00 UTC, the document's type [T]; kept unchanged; the sandbox writes the time of the customer's"
        " decision in every ver of a record",
        "section 2 of part B defines no other time of type integer", "protocol.legacy.Transaction.operated_at",
    ),
    Assumption(
        "tran-fields", "legacy", "which fields of <TRAN> must be there, and how strictly they are read",
        "all that are not marked optional; ids, ver, timeStamp and amounts strictly, descriptions unchecked; unknown fields are kept",
        "an outcome must not be lost because of a description", "protocol.legacy.Transaction",
    ),
    Assumption(
        "tlc-values", "legacy", "the values of tlc",
        "any printable text is read; the sandbox writes posted (ver 1, at approval), executed (ver 2, by the normal rail), declined"
        " (ver 1, one callback) and failed (ver 2, no funds at execution)",
        "section 3 of part B: not shown, but posted first and executed later", "protocol.legacy.LifeCycle",
    ),
    Assumption(
        "access-token", "legacy", "who makes <access_token>",
        "the provider; the callback echoes it as token, and the same token is used for BALANCE, LIST and TX",
        "the path of the request names it before the service could", "protocol.legacy.endpoints",
    ),
    Assumption(
        "access-life", "legacy", "for how long access lasts, and the result of a declined request",
        "90 days from the customer's consent; a declined request has no callback, and its token stays unusable",
        "the usual time of access to accounts; section 6 of part B has no callback for it", "protocol.legacy.rules.ACCESS_LIFETIME",
    ),
    Assumption(
        "undecided-life", "legacy", "for how long a customer can decide about a request for access or a payment",
        "without limit: access begins with the customer's consent, and a payment with its approval",
        "section 4 of part B gives no end, and no callback for one", "sandbox.legacy.access, sandbox.legacy.payments",
    ),
    Assumption(
        "access-refused", "legacy", "the answer to a token that is unknown, not granted yet, declined, expired, revoked, of another API key"
        " or for the other service (AIS, PIS)",
        "401 for each, without a difference", "section 4 of part B: unauthorized; a difference would reveal data of others",
        "protocol.legacy.errors, token.refused",
    ),
    Assumption(
        "access-repeated", "legacy", "the same token requested again",
        "with the same acc 200 and no second request; with another acc 409", "a lost answer must be safe to repeat",
        "protocol.legacy.errors, token.reuse",
    ),
    Assumption(
        "account-form", "legacy", "the form of acc in requests, and the answer to an unknown one",
        "an IBAN as in iban-form, or a phone number of 7 to 15 digits with or without +; 400 for an unknown"
        " customer's account, before and after consent, and for an unknown phone number of a receiver; any valid IBAN can be paid"
        " (own-iban-unknown);"
        " a payment to a phone number goes to the first personal account with the currency other than the payer's",
        "section 4 of part B: phone number or IBAN, and 400 for account not found", "protocol.legacy.models.Account",
    ),
    Assumption(
        "post-answers", "legacy", "the body of the 200 answers to POST", "none; a client ignores a body",
        "section 4 of part B shows the status only", "protocol.legacy.endpoints",
    ),
    Assumption(
        "api-key-form", "legacy", "the scheme of the Authorization header",
        "the bare key, without a scheme; a client sends another form that it is given, such as Bearer and the key",
        "section 5 of part B: the key goes in the header", "client.credentials",
    ),
    Assumption(
        "amount-doubles", "legacy", "how exactly amounts as doubles are read and written",
        "read from the JSON text as decimals of at most 15 digits before the point and 40 characters; rounded to the currency's minor"
        " unit where they differ from it by less than 1e-9; written without exponent and tail; names are three upper-case letters",
        "0.30000000000000004 means 0.30; a balance of another precision is kept unchanged", "protocol.legacy.money",
    ),
    Assumption(
        "tx-amounts", "legacy", "the contents of amts",
        "exactly one currency that has minor units, an amount above zero with at most their decimals; several currencies: 400; a currency"
        " that the payer's account lacks, or the account of a receiver at the bank: 400, like a payment to the paying account",
        "one payment has one main amount; payments of several are not shown", "protocol.legacy.PaymentOrder",
    ),
    Assumption(
        "tx-texts", "legacy", "the lengths and characters of texts of a payment",
        "printable characters; name and street at most 70, city and tcc 35, msg 140; country three upper-case letters; time as"
        " yyyy-MM-dd HH:mm:ss, local, kept unchanged", "the lengths of a SEPA transfer", "protocol.legacy.PaymentOrder",
    ),
    Assumption(
        "tx-receiver", "legacy", "the answer where name, street, city or country is absent for a receiver at another bank", "400",
        "section 4 of part B: they are not needed for an own customer only", "protocol.legacy.errors, order.receiver",
    ),
    Assumption(
        "tx-repeats", "legacy", "the same uuid again",
        "with the same order from the same account 200 and no second payment, however the JSON is written; with another order 409;"
        " first of all 401 for an access token that gives no access now",
        "a lost answer must be safe to repeat", "protocol.legacy.endpoints.PAY; request-id.reuse",
    ),
    Assumption(
        "list-form", "legacy", "order, window and pages of LIST",
        "all booked and pending transactions, the newest first, at most the latest 1000, no pages",
        "section 4 of part B: an array", "protocol.legacy.rules.LIST_LENGTH",
    ),
    Assumption(
        "category-texts", "legacy", "what the category codes mean", "the words of the table; an unknown code is kept and shown as a general"
        " transfer", "section 2 of part B has the codes only", "protocol.legacy.CATEGORIES",
    ),
    Assumption(
        "legacy-errors", "legacy", "the body of errors, and other codes than 400 and 401",
        '{"error": {"code", "message"}}; 404 and 405 for unknown paths and methods, 409 for reuse, 411 and 413 for bodies, 503;'
        " 400 for a POST whose Content-Type is not application/json",
        "section 7 of part B names 401 and 400 only", "protocol.legacy.errors",
    ),
    Assumption(
        "scan-page", "legacy", "what a scan link answers", "a page for the customer; approved money moves, and no callback is owed",
        "section 4 of part B: it creates no outstanding request, and the callback-URI format is not shown",
        "protocol.legacy.endpoints.SCAN",
    ),
    Assumption(
        "login-fields", "legacy", "which fields of the login POST a permission means, and the result of a wrong answer to the login GET",
        "NAME name, PHONE phone, EMAIL email, ADDRESS address, city and country, ID code (the person code); the customer may decline each;"
        " name and code have at most 70 and 35 characters, all visible;"
        " an unknown permission, a missing name, another status or Content-Type, over 64 KiB or 4 seconds: nothing is posted",
        "section 4 of part B names both lists and does not join them", "sandbox.legacy.logins",
    ),
    Assumption(
        "login-token", "legacy", "what the token of the login POST is",
        "the sandbox sends none; a receiver gets the text that the service sends, which no check reads and no repr shows",
        "section 4 of part B lists it without a meaning, and it may be absent", "sandbox.legacy.logins, protocol.legacy.LoginConfirmed",
    ),
    Assumption(
        "login-confirmation", "legacy", "for how long, and by whom, a scanned login can be confirmed",
        "by the customer who scanned it, within five minutes of the scan; afterwards nothing is posted",
        "the validity of a code at the receiver (login-window)", "sandbox.legacy.logins.CONFIRMABLE",
    ),
)
# fmt: on
