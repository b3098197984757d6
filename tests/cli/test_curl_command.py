"""Requests from copied curl commands. Where bash and curl are installed, the request that they send is the expected one."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import socket
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refusals import refused
from tppkit.cli.curl_command import parse_curl, split_command
from tppkit.errors import FormatError
from tppkit.httpsig.wire import parse_request
from tppkit.message import Message

pytestmark = pytest.mark.slow

URL = "https://bank.example/psd2/v1?x=%2F"
FILES = {"body.json": b'{\r\n "a": 1\n}\0', "-": b"in"}

SHELL_COPIES = {
    "Chrome": r"""curl 'https://bank.example/psd2/v1/payments?x=%2F&y={}' --globoff \
  -H 'accept: application/json' \
  -H 'content-type: application/json' \
  -b 'session=a; theme=b' \
  -H 'sec-ch-ua: "Chromium";v="130", "Not?A_Brand";v="99"' \
  --data-raw $'{"name":"O\'Neil\u0021 \u0085","text":"a\\nb"}\r\n' \
  --insecure""",
    "Firefox": r"""curl 'https://bank.example/a' --compressed -X PUT -H 'User-Agent: Mozilla/5.0' -H 'Accept-Language: de' """
    r"""-H 'Accept-Encoding: gzip, br' --data-raw $'{"name":"J\xc3\xb6rg \u20ac","text":"it\'s\n"}'""",
    "Safari": """curl 'https://bank.example/a' \\
-X 'POST' \\
-H 'Content-Type: application/json' \\
--data-binary '{"a":"ö"}'""",
    "Postman": r"""curl --location --request POST 'https://bank.example/psd2/v1/payments' \
--header 'X-Request-ID: 1' \
--header 'Content-Type: application/json' \
--data '{
    "name": "O'\''Neil",
    "currency": "€"
}'""",
    "Postman, a form": r"""curl --location 'https://bank.example/token' \
--header 'Content-Type: application/x-www-form-urlencoded' \
--data-urlencode 'grant_type=client_credentials' \
--data-urlencode 'scope=PISP/ö'""",
    "Insomnia": r"""curl --request GET \
  --url 'https://bank.example/psd2/v1/accounts?withBalance=true' \
  --header 'consent-id: 1' \
  --cookie a=b""",
    "Burp": r"""curl --path-as-is -i -s -k -X $'POST' \
    -H $'Host: bank.example' -H $'Content-Length: 9' \
    -b $'a=b' \
    --data-binary $'{\x0d\x0a\"a\":1}' \
    $'https://bank.example/a/../b'""",
    "mitmproxy": """curl -X DELETE https://bank.example/psd2/v1/consents/1?x=1 -H 'consent-id: 1'""",
    "a bank's portal": r"""$ curl -kv --cert qwac.pem --key qwac.key "https://bank.example/psd2/v1/consents" \
     -H "Digest: SHA-256=a/b=" -H "Accept:" -H "PSU-ID;" -d "{ \"a\": \"\$1 \\ \`\", \
\"b\": 1 }" """,
}
WINDOWS_COPIES = {
    "Chrome": 'curl ^"https://bank.example/a?b=1^&c=^%^2F^" ^\r\n  -X ^"PUT^" ^\r\n  -H ^"X-A: b ^\\^"c^\\^"^" ^\r\n'
    '  --data-raw ^"^{^\\^"a^\\^":^\\^"C:^\\^\\x^\\^",^\r\n\r\n^\\^"b^\\^":^\\^"50^% é^\\^"^}^" ^\r\n  --insecure',
    "older Chrome and Firefox": 'curl "https://bank.example/a?b=1&c="%"2F" -X PUT -H "X-A: b ""c""" ^\n'
    '  --data-binary "{""a"":""C:\\\\x"","^\n\n"""b"":""50"%" é""}"',
}
OPTIONS = [
    """--json '{"a":' --json '1}'""", "-u me:secret", "-A agent -e 'http://ref;auto'", "-u a:b -H Authorization:", "-A x -A y",
    "-A x -H 'User-Agent: z'", "-f -N -4 -w '%{http_code}' -D /dev/null --retry 1 --connect-timeout 5", "-u a:b -H 'Authorization: X'",
    "-d a=1 -d $'b\\nc'", "-X PUT --data-raw @x", "--data-urlencode q=ä/b~-._", "--data-urlencode =a --data-urlencode b",
    "-H Accept: -H 'X-Empty;' -H 'X-A:  b '", "-I", "-X DELETE", "-d ''", "-b a=b -H 'Cookie: c=d'", "-b a=b -b 'c=d; e=f'", "--compressed",
    "--compressed -H 'Accept-Encoding: x'", "-X get", "-H Content-Type: -d x", "-sSXPUT -kd'a b'", "-d\\\n=a\\ b\"c\\\nd\"'e\\\nf'",
    "-H 'A: ~ # *' -d a#b~",
]  # fmt: skip
# What none of the sources writes, although it changes the request or where it goes.
UNSUPPORTED = [
    "-F a=b", "-T file", "-K config", "-G", "-u me", "--data-ascii a",
    "--get", "--form a=b", "--url-query a=b", "--request-target /b", "--proxy http://a", "-x a", "--next", "--", "--unknown", "-s-get",
    "--head=1", "--reque PUT", "--data=a",
]  # fmt: skip


def parse(command: str, **options: Any) -> Message:
    return parse_curl(command.encode(), **options)


def header(message: Message, name: str) -> str:
    (value,) = message.values(name)
    return value


def sent_by_curl(command: str) -> tuple[str, Message]:
    """Run a command against a socket; return it with the socket's address, and the request that arrived."""
    with socket.create_server(("127.0.0.1", 0)) as server, ThreadPoolExecutor() as pool:
        server.settimeout(20)
        address = f"http://127.0.0.1:{server.getsockname()[1]}"
        command = re.sub("https?://bank.example", address, command)
        environment = {"PATH": os.environ["PATH"], "no_proxy": "*", "LC_ALL": "C.UTF-8"}
        script = command.removeprefix("$ ").replace("curl ", "curl -s ", 1)
        process = pool.submit(
            subprocess.run, ["bash", "-c", script], env=environment, check=True, stdout=subprocess.DEVNULL, timeout=20
        )
        connection, _ = server.accept()
        with connection:
            connection.settimeout(20)
            raw = connection.recv(65536)
            while not _is_whole(raw):
                raw += connection.recv(65536)
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        process.result()
    return command, parse_request(raw)


def _is_whole(raw: bytes) -> bool:
    head, separator, body = raw.partition(b"\r\n\r\n")
    length = re.search(rb"(?i)\r\ncontent-length: (\d+)", head)
    return bool(separator) and len(body) >= (int(length[1]) if length else 0)


@pytest.mark.skipif(not (shutil.which("curl") and shutil.which("bash")), reason="needs bash and curl")
@pytest.mark.parametrize("command", [*SHELL_COPIES.values(), *[f"curl {options} 'http://bank.example/a?b=%2F'" for options in OPTIONS],
    "curl http://bank.example/a?", "curl http://bank.example#f"], ids=[*SHELL_COPIES, *OPTIONS, "question mark", "fragment"])  # fmt: skip
def test_bash_and_curl_send_the_same_request(command):
    command, sent = sent_by_curl(command)
    read = parse(command, as_found=True)
    assert (read.method, read.target, read.body) == (sent.method, sent.target, sent.body)
    own = set() if sent.values("user-agent") == read.values("user-agent") else {"user-agent"}  # curl's version
    assert sorted((name.lower(), value) for name, value in read.headers) == sorted(
        (name.lower(), value) for name, value in sent.headers if name.lower() not in own
    )


@pytest.mark.parametrize("command", WINDOWS_COPIES.values(), ids=WINDOWS_COPIES)
def test_a_command_that_a_browser_copied_for_cmd_is_read(command):
    message = parse(command)
    end = "\r\n" if "\r" in command else "\n"
    assert (message.method, message.target) == ("PUT", "/a?b=1&c=%2F")
    assert (header(message, "x-a"), message.body.decode()) == ('b "c"', f'{{"a":"C:\\\\x",{end}"b":"50% é"}}')


def test_a_command_saved_by_an_editor_of_windows_is_read():
    message = parse(f"\ufeff$ curl {URL} \\\r\n -d 'a\r\nb'\r\n")
    assert (message.target, message.body) == ("/psd2/v1?x=%2F", b"a\r\nb")
    assert parse(f"curl.exe {URL}").headers[0] == ("Host", "bank.example")


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12), max_size=6))
def test_words_that_were_quoted_come_back(words):
    command = shlex.join(["curl", *words]).encode().decode("latin-1")
    assert [word.encode("latin-1").decode() for word in split_command(command)] == ["curl", *words]


@pytest.mark.parametrize(
    "text",
    ["'a", '"a', "$'a", "$HOME", "`b`", '"$b"', "| b", "> b", "; b", "& b", "(a)", "*", "{b,c}", "\\", "$'\\ud800'", "# a", "$(b)", "~",
     "~/x", "a=~", "a=b:~", r"$'\cA'", r"$'\x{41}'", "\n-d x", "\r\n-d x", " \\ \n", "$'a\\x00b'", "'a\0b'", '^"^" & b', '^"^" > b',
     '^"%PATH%^"', '^"a', '^"^"\nb', '^"a^', '^"^" a\\^"b^"', '^"a\0b^"'],
)  # fmt: skip
def test_text_that_a_shell_would_change_is_rejected(text):
    with refused(FormatError, "curl.shell"):
        split_command(f"curl {text}")


REJECTED = {
    "curl.option": [
        "wget a", "curl ", "curl a b", *(f"curl {URL} {option}" for option in UNSUPPORTED), f"curl {URL} -", f"curl {URL} -H",
        f"curl {URL} -H 'no header'", f"curl {URL} -H 'X A: b'", f"curl {URL} --data-urlencode 'a=b c'",
        f"curl {URL} -H 'Host: a' -H 'Host: b'", f"curl --head -d x {URL}", "curl 'https://a/{b,c}'", "curl 'https://[a-b].h/'",
        "curl https://u:p@h/", "curl https://u@h/", "curl https://a/a/../b", "curl https://a/a/./b", "curl https://a/a/..",
        "curl https://a/a/%2e%2E/b", "curl https://a/.?x",
    ],
    "message.address": ["curl 'https://a/ b'", "curl 'https://a/é'", "curl file:///etc/passwd", f"curl {URL}\u00a0"],
    "message.malformed": [f"curl {URL} -X 'P O'", f"curl {URL} -X ''"],
    "header.control-character": [f"curl {URL} -H $'A: b\\r\\nC: d'", f"curl {URL} -b $'b=\\nC: d'"],
    "curl.shell": [f"curl {URL} -d {'a' * 131_072}"],
    "curl.file": [
        f"curl {URL} {options}"
        for options in ("-d @a", "--data-binary @/etc/passwd", "-H @a", "--data-urlencode a@b", "-b jar.txt")
    ],
}  # fmt: skip


@pytest.mark.parametrize("code", REJECTED)
def test_what_curl_would_not_send_so_or_has_an_unknown_effect_is_rejected(code):
    for command in REJECTED[code]:
        with refused(FormatError, code, row=command):
            parse(command)
    with refused(FormatError, "curl.option", match='"--form" is not supported'):
        parse(f"curl {URL} --form a=1")


def test_the_brackets_of_an_ipv6_address_are_accepted():
    assert header(parse("curl 'https://[::1]:8443/a'"), "host") == "[::1]:8443"


@pytest.mark.parametrize(
    ("option", "fault"), [("-X get", "message.malformed"), ("-H 'Content-Length: 5' -d abc", "message.length")]
)
def test_a_fault_of_the_request_is_accepted_only_as_found(option, fault):
    with refused(FormatError, fault):
        parse(f"curl {option} {URL}")
    assert parse(f"curl {option} {URL}", as_found=True).target == "/psd2/v1?x=%2F"


@pytest.mark.parametrize(("option", "body"), [("-d", b'{ "a": 1}'), ("--data-binary", FILES["body.json"])])
def test_line_ends_of_a_file_are_lost_as_curl_loses_them(option, body):
    assert parse(f"curl {URL} {option} @body.json", read_file=FILES.__getitem__).body == body


def test_files_that_make_a_body_too_large_are_rejected():
    with refused(FormatError, "message.too-large"):
        parse(f"curl {URL} " + "-d @a " * 9, read_file=lambda name: bytes(1024 * 1024).replace(b"\0", b"a"))


@pytest.mark.parametrize(
    "text",
    ["a" * 130_000, "'a'" * 40_000, "$'" + "\\x41" * 30_000 + "'", "http://" + "@" * 130_000, "-" + "s" * 130_000 + f" {URL}",
     f"{URL} " + "-s " * 43_000, f"{URL} " + "-da " * 32_000, f"{URL} " + "-Ha:b " * 21_000, f"{URL} " + "-ba=b " * 21_000],
    ids=["word", "quoted", "escaped", "at-signs", "letters", "options", "data", "headers", "cookies"],
)  # fmt: skip
def test_the_longest_command_is_read_in_linear_time(text):
    taken = []
    for _ in range(3):  # a busy machine can slow down one of them
        started = time.process_time()
        with suppress(FormatError):
            parse(f"curl {text}")
        taken.append(time.process_time() - started)
    assert min(taken) < 1


@given(
    st.binary()
    | st.text(alphabet="-dHX@'\"$\\\n=:/ahtps; ^%&\r", max_size=60).map(f"curl {URL} ".__add__).map(str.encode)
)
def test_only_format_error_escapes(raw):
    with suppress(FormatError):
        parse_curl(raw)
