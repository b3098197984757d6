"""What the gateway document leaves open."""

from __future__ import annotations

from tppkit.protocol.assumptions.row import Assumption

# fmt: off
GATEWAY: tuple[Assumption, ...] = (
    Assumption(
        "gateway-success", "gateway", "which 2xx status each endpoint answers",
        "201 for what creates an order, card or link, 200 for the rest",
        "section 7: success responses are 2xx", "protocol.gateway.endpoints.CREATED",
    ),
    Assumption(
        "gateway-errors", "gateway", "body, codes and statuses of errors",
        '{"error": {"code", "message"}}; 400 for a body or a rule, 401 for the key, 403 for AFT that is not enabled, 404 for what'
        " the project does not have, 409 for an authorisation that is over, 405, 411, 413 and 503",
        "section 7 shows none; the body is that of the legacy interface", "protocol.gateway.errors",
    ),
    Assumption(
        "gateway-extensions", "gateway", "how refunds and payment links are created",
        "POST /sandbox/v1/orders/{order_id}/refunds/ with amount and description, POST /sandbox/v1/paymentlinks/ with the"
        " fields of a link",
        "section 4.6: not shown; the prefix shows that they are not endpoints of the document", "protocol.gateway.endpoints.EXTENSIONS",
    ),
    Assumption(
        "gateway-clocks", "gateway", "which period ends an attempt, an authorisation and an order",
        "an attempt: 30 minutes from its creation, for a sale its expiration_period instead; an authorisation: its expiration_period from"
        " acceptance, else five days; an order: its expiration_period, else with its only attempt, else one day; what ends at a time has"
        " ended at that time",
        "with 30 minutes for everything, no authorisation would live five days (sections 2.3, 3.4 and 8)",
        "protocol.gateway.authorisations",
    ),
    Assumption(
        "order-moves", "gateway", "the transitions of an order, and what makes it cancelled, expired, error or see-transactions",
        "new to processing when an attempt begins; then completed when one is accepted, cancelled by the customer, expired by its period,"
        " error when the only attempt that it allows is declined or expires before the order; see-transactions when one is accepted while"
        " another is open, which is final;"
        " an order on the hosted page stays processing after a declined attempt, and a card leaves a bank transfer open",
        "section 3.1 has meanings only; the customer may retry on the page", "protocol.gateway.states.ORDER",
    ),
    Assumption(
        "order-after", "gateway", "the status of the original order after authorisation, capture, void, refund or chargeback",
        "completed when the amount is authorised, and it stays so; refunded_amount, is_capturable and the lists of linked orders change",
        "completed is final (section 3.1)", "protocol.gateway.states.ORDER",
    ),
    Assumption(
        "webhook-states", "gateway", "which of two fetched states of an order is the newer one, for a receiver of webhooks",
        "the one with the later modified; if that is equal, the one with more linked orders, attempts and moves",
        "section 6.1: a webhook has no status and no number; modified is optional, and its precision is not shown",
        "web.webhook_inbox",
    ),
    Assumption(
        "delivery-state", "gateway", "whether a paid order is delivered after captures, voids, refunds and chargebacks",
        "not after a void or refund of everything, a capture of 0, a manual authorisation that ended, or a chargeback without its"
        " reversal; after a void, capture or refund of a part, it is; an order with see-transactions is not, without its merchant's look",
        "section 6.3 has the status of the order only, which stays completed", "protocol.gateway.payments.delivery_state",
    ),
    Assumption(
        "transaction-moves", "gateway", "the transitions of a transaction, and its status after expiry and void",
        "new to accepted or declined; an expired attempt is declined; a void, capture or refund changes nothing",
        "section 3.2 shows three values only", "protocol.gateway.states.TRANSACTION",
    ),
    Assumption(
        "link-moves", "gateway", "the transitions of a payment link",
        "new or all_unsuccessful to processing, from there to completed or all_unsuccessful; new and all_unsuccessful expire, processing"
        " waits for its attempt",
        "section 3.3: the customer can retry until the link expires", "protocol.gateway.states.PAYMENT_LINK",
    ),
    Assumption(
        "link-reason", "gateway", "the texts of reason, and what a payment of a link makes",
        "one text for each status; each attempt makes an order, whose only attempt it is, with the terms of the link and the usual"
        " 30 minutes",
        "section 2.5: why the link has its current status; orders is an object of statuses", "sandbox.gateway.links",
    ),
    Assumption(
        "authorisation-moves", "gateway", "the moves of a partly voided, delayed or expired authorisation",
        "a partial void leaves it open with the rest; a delayed one is captured at its end, without what was voided; a manual one lapses",
        "section 3.4 rules 2 to 6", "protocol.gateway.states.AUTHORISATION",
    ),
    Assumption(
        "is-capturable", "gateway", "is_capturable of a delayed authorisation", "false: a request to capture it would be refused",
        "section 3.4 rule 3", "protocol.gateway.authorisations.is_capturable",
    ),
    Assumption(
        "void-amounts", "gateway", "captures and voids of 0, and a void by amount of everything",
        "a capture of 0 is possible and releases everything; a void of 0 is refused; a void of everything by amount is a full void",
        "section 8 has amounts >= 0 for captures", "protocol.gateway.authorisations",
    ),
    Assumption(
        "void-description", "gateway", "whether a void by amount needs amount and description", "amount, not description",
        "section 4 marks both as required for captures only; without an amount, it is the void of the whole",
        "protocol.gateway.bodies.VoidRequest",
    ),
    Assumption(
        "linked-orders", "gateway", "status, direction and flags of orders made from another; what a reversal reverses",
        "completed from the start; debit for voids, refunds and chargebacks, credit for captures and reversals; is-refund for"
        " refunds only, is-test for every order of a test project; a reversal returns a chargeback, and its original order is the paid one;"
        " a refund is of the paid order, not of its capture order",
        "sections 2.2 and 2.3 have the fields only", "protocol.gateway.orders.LINKED_ORDERS",
    ),
    Assumption(
        "order-bounds", "gateway", "how large an order can be, and how many payments and linked orders it can have",
        "16 KiB for the fields that the merchant sends; 100 attempts of an order or a link; no void in part, refund or chargeback after 100"
        " linked orders",
        "answers and pages of a search list all of them", "sandbox.gateway.bounds",
    ),
    Assumption(
        "gateway-currencies", "gateway", "which currencies a request can have", "those of ISO 4217 with minor units, else 400",
        "section 2.1 has the form; amounts are in the smallest unit, which metals and funds do not have",
        "protocol.gateway.values.Currency",
    ),
    Assumption(
        "timestamp-form", "gateway", "offset and precision of time stamps",
        "written in UTC to the microsecond; read with any offset, or as UTC",
        "section 2.1: ISO 8601", "protocol.gateway.values",
    ),
    Assumption(
        "duration-form", "gateway", "which ISO 8601 durations a request can have",
        "whole weeks, or whole days, hours, minutes and seconds, above zero and at most 3650 days; no years and months, whose"
        " length varies",
        "section 2.1 shows PT1H and P7D", "protocol.gateway.values.read_duration",
    ),
    Assumption(
        "gateway-texts", "gateway", "length and characters of texts in requests",
        "1 to 1000 characters, of merchant_order_id and merchant_customer_id 255, no control characters but tab and line feed; answers"
        " are not checked",
        "no limit is shown; databases refuse some control characters, and index short texts only", "protocol.gateway.values.Text",
    ),
    Assumption(
        "card-numbers-in-texts", "gateway", "card numbers in other fields",
        "a name of a cardholder with 12 digits or more is refused; merchant_order_id, description, ids of networks, addresses and other"
        " texts are stored and returned unchanged",
        "section 4.2 has the number in pan only; references of merchants can have as many digits", "protocol.gateway.values.HolderName",
    ),
    Assumption(
        "gateway-addresses", "gateway", "which addresses webhook_url and validationUrl can have; for pages see return-addresses",
        "absolute http or https without user information, at most 2048 characters of ASCII", "section 2.2: uri",
        "protocol.gateway.values.Address",
    ),
    Assumption(
        "payment-method-names", "gateway", "the items of payment_methods",
        "names of lower-case letters, digits and hyphens, at least one",
        "section 2.2 does not show them; payment_method is such a name", "protocol.gateway.values.MethodNames",
    ),
    Assumption(
        "offered-methods", "gateway", "payment_methods that the project does not have",
        "ignored; an order or link that lists no other is refused, because its customer could not pay",
        "sections 1 and 2.2: the page shows every active method, or only those that are listed", "sandbox.gateway.projects.Project.offered",
    ),
    Assumption(
        "transaction-method", "gateway", "a transaction without payment_method, or with one that the project does not have",
        "refused; it need not be one of the order's payment_methods, which are for the hosted page",
        "sections 2.2 and 4.1: with one transaction the merchant picks the method", "sandbox.gateway.checkout",
    ),
    Assumption(
        "unknown-gateway-fields", "gateway", "fields of a request that the document does not list, and client and extra",
        "as assumption unknown-fields; client and extra are returned unchanged",
        "section 2.2 names both and not their structure",
        "protocol.gateway.values.GatewayModel",
    ),
    Assumption(
        "cvc-form", "gateway", "the form of cvc", "3 or 4 digits; required by authenticate, with and without external values",
        "the networks' forms; section 4.6 has it in the flow", "protocol.gateway.card_data.Cvc",
    ),
    Assumption(
        "truncated-pan", "gateway", "the form of truncated_pan", "first six and last four digits, asterisks between them",
        "what PCI DSS allows to show", "protocol.gateway.card_data.truncate_pan",
    ),
    Assumption(
        "card-brands", "gateway", "names of networks, and how they are detected",
        "lower case with hyphens, by the first digits; several fit where ranges overlap, the likeliest is the brand",
        "section 2.6 names neither", "protocol.gateway.card_data.detect_brands",
    ),
    Assumption(
        "card-expired", "gateway", "whether an expired card is stored or charged",
        "no; a card counts until the end of its month in UTC; if that ends while its issuer waits for the customer, the attempt is declined"
        " with 54",
        "section 4.2 has the form only", "protocol.gateway.card_data.is_expired",
    ),
    Assumption(
        "setup-token", "gateway", "what uses up a setup token, and whether 300 seconds are inclusive",
        "only a card that was stored, not a refused card or the end of the order; inclusive", "section 4.2: works once, within 300 seconds",
        "protocol.gateway.payments.require_setup_token",
    ),
    Assumption(
        "one-click-card", "gateway", "which cards one-click takes, and whether both references may be given",
        "those that an accepted transaction with one_click_type first stored; exactly one of vault_token and first_transaction_id;"
        " authenticate accepts no other card for the order",
        "section 3.5 rules 1, 3 and 4", "protocol.gateway.payments.check_order",
    ),
    Assumption(
        "zero-amount-authentication", "gateway", "whether a first transaction of amount 0 always asks the customer",
        "the card decides, as for other amounts: the issuer of a test card for 3-D Secure asks, others authenticate without a question",
        "section 3.5 rule 2 has no flow of its own", "sandbox.gateway.payments",
    ),
    Assumption(
        "setup-token-place", "gateway", "which transactions get a setup_token",
        "those of a card in an own checkout but one-click ones, whose card is stored", "section 2.4: at order creation; 3.5 rule 3",
        "sandbox.gateway.orders.new_transaction",
    ),
    Assumption(
        "vault-token-use", "gateway", "which transactions a stored card can pay",
        "any of its project, until it expires, with authenticate unless the order is one-click, and with initiate where it takes the"
        " transaction",
        "section 4.2: used to authenticate a transaction, and stored for one-click and recurring payments",
        "sandbox.gateway.payments.stored_card",
    ),
    Assumption(
        "customer-leaves", "gateway", "what a customer's cancellation means",
        "open attempts are declined, and the order is cancelled for good; its link can be paid by another order",
        "sections 3.1 and 3.3 have cancelled and all_unsuccessful only", "sandbox.gateway.payments.cancel",
    ),
    Assumption(
        "hosted-pages", "gateway", "what customers see on hosted pages, and what is kept of a card that they type",
        "the method of an open attempt first, then a card, then others; bank transfer and 3-D Secure as a question with two answers;"
        " any security code of 3 or 4 digits; a card whose issuer asks for 3-D Secure is kept encrypted until the payment is decided, that"
        " of an accepted first one-click payment for good; the page of a decided transaction shows its order",
        "section 1 has the addresses and the methods only", "sandbox.gateway.pages",
    ),
    Assumption(
        "return-redirects", "gateway", "when the customer is sent to return_url or failure_url",
        "after the form that ended the payment or found it ended: completed and see-transactions to return_url; in an own checkout as soon"
        " as its transaction is decided; after a declined attempt of an order or link that takes another the customer stays; a page that"
        " is opened later shows the result, with the address as a link",
        "section 2.2 has the addresses by status", "sandbox.gateway.page_state",
    ),
    Assumption(
        "return-addresses", "gateway", "which addresses return_url and failure_url can have",
        "those of redirect-uri: https, an application's own scheme, and http on loopback, at most 2048 characters",
        "browsers are sent there, and section 2.2 has uri only", "protocol.gateway.values.PageAddress",
    ),
    Assumption(
        "recurring-place", "gateway", "the place of recurring_type and first_network_transaction_id, and what initiate takes",
        "in payment_method_details of the order's transaction; the first order of a series that begins here has recurring_type alone;"
        " initiate needs both, for such a series with the network_transaction_id of its first transaction",
        "section 2.4 lists them among its keys; section 4.1 has both for a series of another platform",
        "protocol.gateway.payments.require_recurring",
    ),
    Assumption(
        "wallet-session", "gateway", "the forms of validationUrl and initiativeContext",
        "an https address; a domain of at most 253 ASCII letters, digits, hyphens and dots, without scheme, port and path",
        "a merchant session must not travel in the clear; section 4.4: domain of the payment page",
        "protocol.gateway.bodies.WalletSessionRequest",
    ),
    Assumption(
        "name-inquiry", "gateway", "the network that supports account name inquiry", "visa; for other cards no ani_results",
        "section 3.5 rule 5 does not name it", "protocol.gateway.payments.ANI_BRAND",
    ),
    Assumption(
        "aft-receiver", "gateway", "other receiver types, and the receiver's number", "refused; 12 to 19 digits, as for pan",
        "section 2.3 shows card-account only", "protocol.gateway.payments.check_order",
    ),
    Assumption(
        "external-value-types", "gateway", "types of the external 3-D Secure values",
        "texts, and a boolean for 3ds_method_used; answers are not checked", "its name is that of a flag",
        "protocol.gateway.orders.ExternalAuthentication",
    ),
    Assumption(
        "authenticate-answer", "gateway", "the answer of authenticate without external values",
        "the order with redirect_url, where the customer authenticates; absent if nothing is left to do",
        "section 4.5 names redirect_url and shows no answer", "protocol.gateway.orders.Order",
    ),
    Assumption(
        "search-wrapper", "gateway", "the JSON of a search result",
        '{"orders": [...], "search_after": ...}, without search_after on the last page; a number or array there is sent back as text',
        "section 4.3 names the contents only", "protocol.gateway.bodies.SearchResult",
    ),
    Assumption(
        "search-size", "gateway", "default and maximum of size, and results beyond 10,000",
        "100 and 1000; start counts from 0; a page that crosses 10,000 is shortened, a later one is empty; a page of more than 2 MB is"
        " shortened, and"
        " search_after continues after it", "section 4.3 has a minimum only",
        "protocol.gateway.search",
    ),
    Assumption(
        "search-language", "gateway", "what a query has besides `*`, `field:value` and `field:[from TO to]`",
        "AND, OR, NOT and parentheses, NOT before AND before OR; `*` for an open end of a range; values in double quotes, with"
        " \\\\ for a backslash and \\\" for a quote; without quotes letters, digits and . _ @ + -, in ranges also the colon; no"
        " wildcards in values, no exclusive ends; 4096 characters, 100 terms, nested 10 deep",
        "section 4.3 shows three forms, and they cannot name a text with a space", "protocol.gateway.query",
    ),
    Assumption(
        "search-fields", "gateway", "which fields a query can have, and what their values mean",
        "id, status, merchant_order_id, currency, amount, created, modified, completed, customer.merchant_customer_id and the ids of"
        " related orders and links, another is refused; texts are compared for equality, with case except in ids; ranges of"
        " amounts and times only; a date is the whole day in UTC, and other times have an offset or are UTC; NOT also matches orders"
        " without the field, and `field:[* TO *]` those with it",
        "section 4.3 shows status and created", "sandbox.gateway.search",
    ),
    Assumption(
        "search-sort", "gateway", "the form of sort, and the order of equals",
        "`field asc` or `field desc`, created desc without it; then by id in the same direction; the sandbox sorts by created and modified",
        "section 4.3 shows created asc", "protocol.gateway.search.page_of",
    ),
    Assumption(
        "search-cursor", "gateway", "the form of search_after, and what happens if size or sort change between pages",
        "JSON with sort value and id of the last order, size and sort; a request with another size or sort is refused",
        "section 4.3: the sort value, and both are the same in every request", "protocol.gateway.search.write_cursor",
    ),
    Assumption(
        "search-format", "gateway", "another value of format than csv", "refused", "section 4.3: only value csv",
        "protocol.gateway.endpoints.SEARCH",
    ),
    Assumption(
        "csv-rows", "gateway", "orders without transactions in the CSV report, and columns of fees and settlement",
        "no row, and size counts orders; empty unless the transaction has such fields", "section 4.3: each row is one transaction",
        "protocol.gateway.search.report_rows",
    ),
    Assumption(
        "csv-form", "gateway", "the line ends of a CSV report, and absent columns",
        "the last line may have none, because only answers with a length or in chunks are read, which show where they end (a proxy can"
        " hide that its own connection was cut); a byte order mark is ignored; columns that can be empty can be absent",
        "RFC 4180; section 4.3 names columns only", "protocol.reports",
    ),
    Assumption(
        "csv-size", "gateway", "how many orders a CSV report without size has",
        "all that match; without search_after at most 10,000, with search_after -1 without a limit",
        "a report is streamed, and it has no place for the next search_after", "protocol.gateway.search.page_of",
    ),
    Assumption(
        "csv-formulas", "gateway", "cells that a spreadsheet reads as a formula",
        "raw in the service's answer; files of write_report have an apostrophe before = + - @, also behind white space and in full-width"
        " characters, and before tab and line break, but not before numbers",
        "programs read the answer; merchants open files in spreadsheets, and customers choose some texts", "client.gateway.write_report",
    ),
    Assumption(
        "webhook-changes", "gateway", "whether the creation of an order is a change of its status",
        "no; every later change is one, also several in one request; an order that is made from another is reported once, when it is made",
        "section 6.1: every time the status changes; the answer to the creation has the first one",
        "sandbox.gateway.webhooks.notify",
    ),
    Assumption(
        "webhook-linked", "gateway", "where the webhooks of captures, voids, refunds, chargebacks and reversals go",
        "to the address of the order that they were made from, else the project's",
        "section 6.1 names orders and payment links only", "sandbox.gateway.webhooks.notify",
    ),
    Assumption(
        "webhook-success", "gateway", "which answers besides 200 acknowledge a webhook",
        "every 2xx; a redirect is a failure and is not followed; the body is not waited for",
        "section 6.1 has 200, and 4xx and 5xx for failures", "protocol.gateway.webhooks.is_delivered",
    ),
    Assumption(
        "webhook-timeouts", "gateway", "what the two timeouts of a webhook are for",
        "one for name, connection and TLS, another of the same length for request and head of the answer",
        "section 6.1: timeout for connect and read", "sandbox.gateway.webhooks.GatewaySender",
    ),
    Assumption(
        "webhook-order", "gateway", "whether a webhook waits for earlier ones of its order", "no",
        "their bodies are equal, and the receiver reads the order", "sandbox.gateway.webhooks.notify",
    ),
    Assumption(
        "webhook-addresses", "gateway", "webhooks to http and to private addresses",
        "refused with 400 when they are set; called are https addresses on the public network, and what the sandbox is allowed to call."
        " A name is resolved at each attempt, which fails if it leads elsewhere",
        "section 6.1: should be HTTPS; attackers can choose these addresses, as those of login codes", "sandbox.outgoing_http",
    ),
    Assumption(
        "gateway-repeats", "gateway", "which requests a client sends again by itself, and which errors mean that nothing was done",
        "GET and searches; nothing that may create an order, card or session; nothing was done after 4xx with a JSON object, except 408 and"
        " 499, after 401, 405, 411, 413, 414, 415, 429 and 431 with any body, and after 503 with an error code; the legacy interface also:"
        " after 400 with any body",
        "the document has neither an idempotency key nor an error body; proxies answer without JSON too, perhaps after the request was"
        " carried out; RFC 9110 section 15.5 and RFC 6585 have those statuses sent before that; part B of the PSD2 document names 400",
        "protocol.gateway.endpoints",
    ),
)
# fmt: on
