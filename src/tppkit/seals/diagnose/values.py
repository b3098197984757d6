"""Mistakes in the values of the signing string's lines."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta, timezone
from email.utils import format_datetime, parsedate_to_datetime
from time import asctime
from urllib.parse import quote, unquote_to_bytes

from tppkit.httpsig.cavage import CREATED, EXPIRES
from tppkit.httpsig.message import REQUEST_TARGET
from tppkit.seals.diagnose.draft import Draft, Seen
from tppkit.seals.diagnose.mistake import Part, StringMistake

MAX_LINES = 32
_CHARACTER_SETS = ("; charset=utf-8", ";charset=utf-8", "; charset=UTF-8", ";charset=UTF-8")
_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_ZONE_NAMES = {
    "+0000": ("Coordinated Universal Time", "Greenwich Mean Time", "UTC"),
    "+0100": ("Central European Standard Time", "British Summer Time"),
    "+0200": ("Eastern European Standard Time", "Central European Summer Time"),
    "+0300": ("Eastern European Summer Time",),
}
_SPACES = re.compile(r"[ \t]+")
_CREATED = re.compile(r";created=([0-9]{1,11})(?![0-9])")
_UUID = re.compile(r"[0-9A-Fa-f]{8}(?:-?[0-9A-Fa-f]{4}){3}-?[0-9A-Fa-f]{12}")
_MEND = "Sign each value as it is sent, white space at its ends removed; several fields of one name joined by a comma and a space."
Values = Callable[[str, str, Seen], Iterator[str]]


def _values(name: str, cause: str, values: Values, mend: str = _MEND, *, common: bool = False) -> StringMistake:
    """A row that changes the value of one line, or of every line alike."""

    def apply(draft: Draft, seen: Seen) -> Iterator[Draft]:
        lines = draft.lines[:MAX_LINES]
        pending = [(line.name, _others(line.value, values(line.component, line.value, seen))) for line in lines]
        number = 0
        while pending:
            drawn = [(line_name, others, next(others, None)) for line_name, others in pending]
            changes = [(line_name, other) for line_name, _, other in drawn if other is not None]
            yield from (draft.with_value(line_name, other) for line_name, other in changes)
            if number == 0 and len(changes) > 1:
                everywhere = draft
                for line_name, other in changes:
                    everywhere = everywhere.with_value(line_name, other)
                yield everywhere
            pending = [(line_name, others) for line_name, others, other in drawn if other is not None]
            number += 1

    return StringMistake(name, Part.STRING, cause, mend, apply, common, 8)


def _others(value: str, values: Iterator[str]) -> Iterator[str]:
    """One by one: of pairs of mistakes only the first few are asked for."""
    return (other for other in values if other != value)


def _one_of_many(index: int) -> Values:
    def values(name: str, value: str, seen: Seen) -> Iterator[str]:
        several = seen.fields.get(name, ())
        if len(several) > 1:
            yield several[index].value.strip(" \t")

    return values


def _joined_otherwise(name: str, value: str, seen: Seen) -> Iterator[str]:
    several = [field.value.strip(" \t") for field in seen.fields.get(name, ())]
    if len(several) > 1:
        for joiner in (",", "; ", ";", " ", "\n", f"\n{name}: ", " , "):
            yield joiner.join(several)
        yield ", ".join(reversed(several))
        yield ", ".join(sorted(several))


def _spaces_collapsed(name: str, value: str, seen: Seen) -> Iterator[str]:
    yield _SPACES.sub(" ", value)
    yield _SPACES.sub("", value)


def _untrimmed(name: str, value: str, seen: Seen) -> Iterator[str]:
    yield f"{value} "
    yield f" {value}"
    yield f" {value} "
    yield f"{value}\t"
    yield f"{value}\r"


def _punctuated(name: str, value: str, seen: Seen) -> Iterator[str]:
    yield f"{value};"
    yield f"{value},"
    yield value.rstrip(";,")


def _folded(name: str, value: str, seen: Seen) -> Iterator[str]:
    """A value that was folded over two lines, signed with its fold."""
    places = [match.start() for match in re.finditer(" ", value)][:16]
    for place in places:
        for fold in ("\r\n ", "\n ", "\r\n\t", "\n\t", "\n    ", "\r\n    ", "\n"):
            yield value[:place] + fold + value[place + 1 :]


def _lower(name: str, value: str, seen: Seen) -> Iterator[str]:
    if name != REQUEST_TARGET:
        yield value.lower()


def _upper(name: str, value: str, seen: Seen) -> Iterator[str]:
    if name != REQUEST_TARGET:
        yield value.upper()


def _uuid_form(name: str, value: str, seen: Seen) -> Iterator[str]:
    if _UUID.fullmatch(value):
        bare = value.replace("-", "")
        yield bare
        yield f"{{{value}}}"
        yield f"urn:uuid:{value}"
        yield f"{bare[:8]}-{bare[8:12]}-{bare[12:16]}-{bare[16:20]}-{bare[20:]}"


def _quoted(name: str, value: str, seen: Seen) -> Iterator[str]:
    yield f'"{value}"'
    yield f"'{value}'"
    if value[:1] == value[-1:] == '"':
        yield value[1:-1]


def _url_form(name: str, value: str, seen: Seen) -> Iterator[str]:
    if name != REQUEST_TARGET:
        yield quote(value.encode("latin-1", "replace"), safe="")
        yield quote(value.encode("latin-1", "replace"), safe="/:?=&")
        yield unquote_to_bytes(value.encode("latin-1", "replace")).decode("latin-1")


def _value_left_out(name: str, value: str, seen: Seen) -> Iterator[str]:
    yield ""
    yield "null"
    yield "None"
    yield "undefined"


def _digest_bare(name: str, value: str, seen: Seen) -> Iterator[str]:
    if name == seen.digest_name:
        yield value.partition("=")[2]
        yield value.partition("=")[2].strip(":")


def _digest_label(name: str, value: str, seen: Seen) -> Iterator[str]:
    if name == seen.digest_name:
        label, separator, rest = value.partition("=")
        for other in (label.lower(), label.upper(), label.replace("-", ""), label.replace("-", "").lower()):
            yield f"{other}{separator}{rest}"


def _digest_other(name: str, value: str, seen: Seen) -> Iterator[str]:
    if name == seen.digest_name:
        for _, other in seen.digests:
            yield other


def _host_form(name: str, value: str, seen: Seen) -> Iterator[str]:
    if name == "host":
        plain = re.sub(r":\d+$", "", value)
        yield from (plain, f"{plain}:443", f"{plain}:8443", f"{plain}:80", f"https://{value}", f"https://{plain}")
        yield from (text for other in ("x-forwarded-host", ":authority") if (text := seen.values.get(other)))


def _near_times(name: str, value: str, seen: Seen) -> Iterator[str]:
    if name in (CREATED, EXPIRES) and value.isdecimal() and len(value) < 16:
        for seconds in range(1, 11):
            yield str(int(value) - seconds)
            yield str(int(value) + seconds)
    if name == "@signature-params" and (created := _CREATED.search(value)):
        for seconds in (*range(1, 11), *range(-10, 0)):
            yield f"{value[: created.start(1)]}{int(created[1]) + seconds}{value[created.end(1) :]}"
    at = _date(value) if name == "date" else None
    if at is not None:
        for seconds in range(1, 11):
            yield format_datetime(at - timedelta(seconds=seconds), usegmt=True)
            yield format_datetime(at + timedelta(seconds=seconds), usegmt=True)


def _time_form(name: str, value: str, seen: Seen) -> Iterator[str]:
    if name in (CREATED, EXPIRES) and value.isdecimal() and len(value) < 16:
        yield from (f'"{value}"', f"{value}000", f"{value}.0", f"{value}.000")
    at = _date(value) if name == "date" else None
    if at is not None:
        imf = format_datetime(at, usegmt=True)
        yield imf
        yield re.sub(r", 0", ", ", imf)
        yield from (f"{day}{imf[3:]}" for day in _DAYS)  # of another day of the week
        yield from (imf.replace("GMT", zone) for zone in ("+0000", "UTC", "Z", "-0000", "+00:00"))
        yield from (
            at.strftime(form) for form in ("%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%dT%H:%M:%S+00:00", "%A, %d-%b-%y %H:%M:%S GMT")
        )
        for hours in (1, 2, 3, -1):
            yield format_datetime(at + timedelta(hours=hours), usegmt=True)
        yield from _program_forms(at)


def _program_forms(at: datetime) -> Iterator[str]:
    """As programs print a time that they did not format for a header: in UTC, then in the zones of the world."""
    yield asctime(at.timetuple())
    yield str(int(at.timestamp()))
    yield str(int(at.timestamp()) * 1000)
    for zone in (UTC, *[timezone(timedelta(hours=hours)) for hours in (*range(1, 15), *range(-12, 0))]):
        local = at.astimezone(zone)
        words, offset = asctime(local.timetuple()).split(), f"{local:%z}"
        javascript = f"{' '.join(words[:2])} {local:%d %Y %H:%M:%S} GMT{offset}"
        yield format_datetime(local)
        yield local.isoformat()
        yield local.isoformat(timespec="milliseconds")
        yield javascript
        for name in _ZONE_NAMES.get(offset, ()):
            yield f"{javascript} ({name})"
    for thousandth in range(1000):  # JavaScript's toISOString, whose thousandths are not in a Date header
        yield f"{at:%Y-%m-%dT%H:%M:%S}.{thousandth:03d}Z"


def _date(value: str) -> datetime | None:
    try:
        return parsedate_to_datetime(value).replace(microsecond=0).astimezone(UTC)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None


def _parameter_added(name: str, value: str, seen: Seen) -> Iterator[str]:
    """Content-Type before or after a client adds or drops its character set."""
    if name == "content-type":
        plain = value.partition(";")[0].strip()
        yield from (plain, *(f"{plain}{form}" for form in _CHARACTER_SETS))


def _clock_apart(name: str, value: str, seen: Seen) -> Iterator[str]:
    """A Date up to five minutes off: a request that waited, or was tried again."""
    at = _date(value) if name == "date" else None
    if at is not None:
        for seconds in range(11, 301):
            yield format_datetime(at - timedelta(seconds=seconds), usegmt=True)
            yield format_datetime(at + timedelta(seconds=seconds), usegmt=True)


def _mojibake(name: str, value: str, seen: Seen) -> Iterator[str]:
    """Text beyond ASCII that was signed in another character set than it was sent in."""
    if not value.isascii():
        yield (
            value.encode("latin-1", "replace").decode("utf-8", "replace").encode("latin-1", "replace").decode("latin-1")
        )
        yield value.encode("utf-8").decode("latin-1")
        yield value.encode("ascii", "replace").decode("ascii")


VALUE_MISTAKES: tuple[StringMistake, ...] = (
    _values("value-first", "Of a header that stands more than once only the first value was signed.", _one_of_many(0), common=True),
    _values("value-last", "Of a header that stands more than once only the last value was signed.", _one_of_many(-1), common=True),
    _values("value-joined", "The values of a header that stands more than once were joined otherwise, or stand in another order.",
         _joined_otherwise),
    _values("value-digest-label", "The algorithm of the digest is spelled otherwise in what was signed.", _digest_label),
    _values("value-digest-other",
         "The signature covers another digest than the one that was sent: that of the body, or of a form of it.", _digest_other,
            "Set Digest once, from the bytes that are sent, and sign that value."),
    _values("value-digest-bare", "The line of the digest lacks the name of the algorithm in what was signed.", _digest_bare),
    _values("value-lower-case", "A value was signed in lower case that was sent otherwise.", _lower),
    _values("value-upper-case", "A value was signed in capitals that was sent otherwise.", _upper),
    _values("value-uuid-form", "A UUID was signed in another form than it was sent in.", _uuid_form),
    _values("value-untrimmed", "White space at the end of a value was signed.", _untrimmed),
    _values("value-spaces", "Runs of white space inside a value were signed otherwise.", _spaces_collapsed),
    _values("value-folded", "A value was signed with the line break of a folded header.", _folded,
            "Join folded lines by one space before signing; better, never fold."),
    _values("value-time-form", "A time was signed in another form than it was sent in.", _time_form),
    _values("value-time-near", "A time was signed that is some seconds off the one that was sent: the clock was read twice.", _near_times,
            "Read the clock once, and use that value for the header and the signing string.", common=True),
    _values("value-time-apart", "A Date was signed that is up to five minutes off the one that was sent.", _clock_apart,
            "Sign again on every try, with a fresh Date."),
    _values("value-content-type", "Content-Type was signed with or without the charset that stands in what was sent.", _parameter_added,
            "Set Content-Type in full before signing, so that the HTTP client adds nothing to it."),
    _values("value-semicolon", "A semicolon or comma at the end of a value was signed.", _punctuated),
    _values("value-host", "The host was signed in another form than it was sent in.", _host_form),
    _values("value-quoted", "A value was signed with quotes around it, or without those that it has.", _quoted),
    _values("value-url-encoded", "A value was percent-encoded or decoded before it was signed.", _url_form),
    _values("value-character-set", "A value beyond ASCII was signed in another character set than it was sent in.", _mojibake),
    _values("value-left-out", "The value of a header is missing from what was signed; the header was set after signing.", _value_left_out,
            "Set every header before signing."),
)  # fmt: skip
