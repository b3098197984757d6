"""What part A of the PSD2 document leaves open about consents and account information."""

from __future__ import annotations

from tppkit.protocol.assumptions.row import Assumption

# fmt: off
ACCOUNTS: tuple[Assumption, ...] = (
    Assumption(
        "consent-form", "psd2", "the form of access",
        "exactly one of {\"allPsd2\": \"allAccounts\"}, {\"availableAccounts\": \"allAccounts\"} and {\"accounts\", \"balances\","
        " \"transactions\"}, lists of {\"iban\"} that are not empty and all name the same account; else 400",
        "guidelines 1.3.8 section 6.3.1.1; a consent is bound to one account, so two IBANs would contradict it",
        "protocol.psd2.accounts.Access",
    ),
    Assumption(
        "consent-fields", "psd2", "which fields a consent request needs",
        "access, validUntil and frequencyPerDay; recurringIndicator is accepted and has no effect",
        "guidelines 1.3.8 section 6.3.1.1, which also require recurringIndicator; the document does not name it",
        "protocol.psd2.accounts.ConsentRequest",
    ),
    Assumption(
        "frequency-per-day", "psd2", "the range of frequencyPerDay",
        "a whole number from 1 to 2147483647, never lowered",
        "the document shows no maximum, and a lowered value would hide what a provider tests", "protocol.psd2.accounts.ConsentRequest",
    ),
    Assumption(
        "consent-created", "psd2", "the answer to the creation of a consent",
        "201 with consentId, status received and _links scaRedirect, self and status",
        "the form of the payment initiation; guidelines 1.3.8 section 6.3.1.1", "protocol.psd2.endpoints.CREATE_CONSENT",
    ),
    Assumption(
        "consent-repeats", "psd2", "whether the creation of a consent is idempotent",
        "yes, like the payment initiation: one hour, the same answers",
        "the table of headers is titled for payments, but X-Request-ID is required on every request",
        "protocol.psd2.endpoints.CREATE_CONSENT",
    ),
    Assumption(
        "consent-headers", "psd2", "which headers the creation of a consent takes",
        "those of the payment initiation, TPP-Redirect-URI and PSU-IP-Address included",
        "section 5 rule 4 of part A demands the same seal, and the approval link works alike", "protocol.psd2.endpoints.CREATE_CONSENT",
    ),
    Assumption(
        "consent-names", "psd2", "the names of the status field and of its values",
        "status with received, valid, expired, revoked; a client also reads consentStatus, and revokedByPsu, terminatedByTpp"
        " and rejected as revoked; other values unchanged",
        "section 3 of part A names four values; banks write those of the guidelines", "protocol.psd2.accounts.Status",
    ),
    Assumption(
        "consent-declined", "psd2", "the status of a consent that the customer declines",
        "revoked; rejected of the guidelines is read as the same",
        "of the four values only this one says that the customer does not agree", "protocol.psd2.consent.CONSENT",
    ),
    Assumption(
        "consent-link", "psd2", "how long a consent waits for its approval, and how often its link can be used",
        "300 seconds after creation, or after the customer last opened or used the approval page; then expired. The link decides once",
        "section 3 of part A has both rules for payments only", "BankRules.inactivity; protocol.psd2.consent.due_consent_trigger",
    ),
    Assumption(
        "consent-end", "psd2", "when a consent ends",
        "at the end of its validUntil in the bank's zone, from which the 180 days are counted too; a day that has passed is 400",
        "the document caps validUntil as a date; guidelines 1.3.8: valid until this date inclusive",
        "protocol.psd2.consent.cap_valid_until",
    ),
    Assumption(
        "consent-revoked", "psd2", "what DELETE does, and its answer",
        "204 without a body; received and valid become revoked, expired and revoked stay as they are; the customer can revoke"
        " at the bank too, with the same status",
        "guidelines 1.3.8 section 6.3.4; a repeated DELETE is no error in HTTP", "protocol.psd2.endpoints.DELETE_CONSENT",
    ),
    Assumption(
        "consent-codes", "psd2", "the status and code for a consent that cannot be used",
        "403 CONSENT_UNKNOWN for one that is not the caller's or does not exist; 401 CONSENT_EXPIRED for an expired one; 401"
        " CONSENT_INVALID for received, revoked, and for what the grant lacks; 400 FORMAT_ERROR without Consent-ID",
        "guidelines 1.3.8 section 14.11.2; the document has 401 and 403", "protocol.psd2.errors",
    ),
    Assumption(
        "account-unknown", "psd2", "the answer to a resourceId that is not of the consent",
        "403 RESOURCE_UNKNOWN, the same for one that does not exist",
        "guidelines 1.3.8 section 14.11: resource in the path", "protocol.psd2.errors",
    ),
    Assumption(
        "unattended-reads", "psd2", "which requests count against frequencyPerDay",
        "each successful account-data call of the consent without PSU-IP-Address, on the bank's day; not counted are refused calls"
        " and, on the same day, the page after a counted page, the page after that one, and so on",
        "the document counts retrievals, and the pages of one list are one retrieval", "sandbox.psd2.accounts",
    ),
    Assumption(
        "access-exceeded", "psd2", "the answer beyond frequencyPerDay",
        "429 ACCESS_EXCEEDED with Retry-After, the seconds until the bank's next day",
        "guidelines 1.3.8 section 14.11.2", "protocol.psd2.errors",
    ),
    Assumption(
        "bank-zone", "psd2", "the zone of the bank's days",
        "Europe/Vilnius, for limits of a day, for validUntil, and for bookingDate and valueDate, which are both the day of the booking",
        "a day needs one zone for both sides, and bookings follow the bank's", "sandbox.bank.zone.BANK_ZONE",
    ),
    Assumption(
        "resource-id", "psd2", "whether consents share the resourceId of an account",
        "no: each consent has its own; the IBAN in the list shows that two consents have the same account",
        "section 2 of part A: stable for the life of the consent, not longer", "sandbox.psd2.consents",
    ),
    Assumption(
        "several-consents", "psd2", "whether a new consent ends an earlier one of the same customer and provider",
        "no: each is valid until its own end, and has its own account, resourceId and frequencyPerDay",
        "no transition of section 3 of part A depends on another consent; DELETE ends one that is no longer needed",
        "sandbox.psd2.consents",
    ),
    Assumption(
        "account-currency", "psd2", "the currency of an account in the list that has several",
        "XXX, or the only one",
        "guidelines 1.3.8 section 4.5 for multicurrency accounts", "protocol.psd2.accounts.SEVERAL_CURRENCIES",
    ),
    Assumption(
        "transactions-window", "psd2", "details of the transactions query",
        "the window goes by bookingDate; dateTo before dateFrom is 400, a dateTo after today counts as today; withBalance is true or false",
        "section 4 of part A shows names and defaults only", "protocol.psd2.rules.parse_transaction_query",
    ),
    Assumption(
        "transactions-pages", "psd2", "the form of pages",
        "100 booked entries, newest first; next is the same query with after, the last transactionId of the page; pending"
        " entries are on the first page only",
        "a page that follows an entry stays the same while new ones arrive", "protocol.psd2.rules.PAGE_SIZE",
    ),
    Assumption(
        "transactions-arrays", "psd2", "whether booked and pending are present when they were not requested",
        "yes, empty", "the wrapper of section 2 of part A shows both", "protocol.psd2.accounts.TransactionPage",
    ),
    Assumption(
        "entry-currency", "psd2", "how a transfer in another currency than EUR is listed",
        "booked and pending with its EUR value at the bank's rate, which never changes, to the nearest cent and at least 0.01; the balance"
        " of its currency shows what moved; an exchange within the account is one entry, its EUR side",
        "section 2 of part A: always EUR, the amount that moved; which rate a bank charges is not shown", "sandbox.bank.ledger.RATES",
    ),
    Assumption(
        "pending-entries", "psd2", "the fields of a pending entry",
        "as of a booked one, without bookingDate and valueDate; other banks may leave out more",
        "it is not booked yet", "protocol.psd2.accounts.Transaction",
    ),
    Assumption(
        "pending-limit", "psd2", "how many transfers of an account may be pending",
        "1000; the customer cannot approve another with this account until one is booked or fails",
        "pending entries have no pages, so one answer lists them all", "sandbox.bank.ledger.MAX_PENDING",
    ),
    Assumption(
        "next-link", "psd2", "where a client follows next",
        "only on the same origin and below /psd2/v1, with the same Consent-ID; a repeated link, or more than 10000"
        " pages, is an error",
        "a bank's answer must not lead the client's certificate elsewhere or keep it busy for ever", "client.calls.PagedCall",
    ),
)
# fmt: on
