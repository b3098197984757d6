"""Requests written as curl command lines; where curl itself is installed, what it sends is the measure."""

from __future__ import annotations

import shlex
import shutil
import socket
import string
import subprocess
import threading
import time
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from refusals import refused
from tppkit.errors import FormatError
from tppkit.httpsig.curl import parse_curl
from tppkit.httpsig.message import Message
from tppkit.httpsig.shell_words import parse_words
from tppkit.httpsig.wire import parse_request

URL = "https://bank.example/psd2/v1?x=%2F"
CURL = shutil.which("curl")
BASH = shutil.which("bash")
FILES = {"body.json": b'{\r\n "a": 1\n}', "zero": b"a\0b\nc", "-": b"in"}


def code(command: str) -> str:
    with pytest.raises(FormatError) as caught:
        parse_curl(command)
    return caught.value.code


def test_a_zero_byte_in_a_file_whose_line_ends_are_dropped_is_refused() -> None:
    for option in ("-d", "--data-ascii"):
        with refused(FormatError, "curl.file"):
            parse_curl(f"curl {URL} {option} @zero", read_file=FILES.__getitem__)
    assert parse_curl(f"curl {URL} --data-binary @zero", read_file=FILES.__getitem__).body == FILES["zero"]


@pytest.mark.parametrize("data", ["-d 1", "--json 1", "--data-urlencode a=1"])
def test_data_that_curl_would_send_in_chunks_is_refused(data: str) -> None:
    assert code(f"curl {URL} {data} -H 'transfer-Encoding: chunked'") == "curl.option"
    taken_away = parse_curl(f"curl {URL} {data} -H 'Transfer-Encoding:'")
    assert header(taken_away, "Content-Length") == str(len(taken_away.body))
    in_query = parse_curl(f"curl -G {URL} {data} -H 'Transfer-Encoding: chunked'", as_found=True)
    assert in_query.values("content-length") == ()


def header(message: Message, name: str) -> str:
    (value,) = message.values(name)
    return value


def test_a_command_becomes_the_request_that_curl_sends() -> None:
    message = parse_curl(f"curl -X PUT '{URL}' \\\n  -H 'X-Request-ID: 1' --data-raw '{{\"a\":1}}' -sS --compressed")
    assert (message.method, message.target, message.body) == ("PUT", "/psd2/v1?x=%2F", b'{"a":1}')
    assert (header(message, "host"), header(message, "x-request-id")) == ("bank.example", "1")
    assert header(message, "content-type") == "application/x-www-form-urlencoded"
    assert header(message, "content-length") == "7"


@pytest.mark.parametrize(
    ("options", "method"),
    [
        ("", "GET"),
        ("-d a", "POST"),
        ("-I", "HEAD"),
        ("-G -d a", "GET"),
        ("-XDELETE", "DELETE"),
        ("--request PUT -d a", "PUT"),
    ],
)
def test_the_method_is_what_the_options_make_it(options: str, method: str) -> None:
    assert parse_curl(f"curl {options} {URL}").method == method


def test_a_command_saved_with_other_line_ends_is_read_the_same() -> None:
    assert parse_curl(f"curl {URL} \\\r\n -d 'a\r\nb'\r\n").body == b"a\r\nb"


@pytest.mark.parametrize("end", ["\n", "\r\n", " \n ", " \\\n\n", "\\\n \n", " \\ \n", "\n\n"])
def test_a_line_end_without_a_backslash_ends_the_command(end: str) -> None:
    assert code(f"curl {URL}{end}-d x=1") == "curl.shell"
    assert parse_curl(f"\n curl {URL}{end.replace(chr(92), '')}").body == b""


def test_data_joins_by_ampersands_and_json_does_not() -> None:
    assert parse_curl(f"curl {URL} -d a=1 --data-binary b=2 --data-urlencode 'c=ä+'").body == b"a=1&b=2&c=%C3%A4%2B"
    message = parse_curl(f"""curl {URL} --json '{{"a":' --json '1}}'""")
    assert message.body == b'{"a":1}'
    assert header(message, "content-type") == "application/json"


@pytest.mark.parametrize(
    ("option", "body"), [("-d", b'{ "a": 1}'), ("--data-binary", FILES["body.json"]), ("--json", FILES["body.json"])]
)
def test_line_ends_of_a_file_are_lost_as_curl_loses_them(option: str, body: bytes) -> None:
    assert parse_curl(f"curl {URL} {option} @body.json", read_file=FILES.__getitem__).body == body


@pytest.mark.parametrize(
    "options", ["-d @a", "--data-binary @/etc/passwd", "-H @a", "--data-urlencode a@b", "-b jar.txt"]
)
def test_files_are_not_read_unless_allowed(options: str) -> None:
    assert code(f"curl {URL} {options}") == "curl.file"


def test_a_header_without_value_removes_curls_own_and_a_semicolon_sends_an_empty_one() -> None:
    message = parse_curl(f"curl {URL} -H 'Accept:' -H 'X-Empty;'")
    assert message.values("accept") == ()
    assert message.values("x-empty") == ("",)


def test_the_address_may_lack_its_scheme_and_have_a_fragment() -> None:
    message = parse_curl("curl bank.example/a?b#c")
    assert (header(message, "host"), message.target) == ("bank.example", "/a?b")


def test_quotes_of_every_kind_are_read() -> None:
    words = parse_words(r"""a'b c'"d \"e\$" f\ g $'\u00e9\x41\101\'\n' '' "x\
y" """)
    assert words == (b'ab cd "e$', b"f g", "éAA'\n".encode(), b"", b"xy")


@pytest.mark.parametrize(
    "text",
    ["'a", '"a', "$'a", "a $HOME", "a `b`", 'a "$b"', "a | b", "a > b", "a; b", "a & b", "(a)", "a *", "a {b,c}", "a \\", "$'\\ud800'",
    "# a", "a $(b)", "~", "a ~/x", "~root", "~+", "~:x", "~root:'x'", "a=~", "a=~/'x'", "_a1+=b:~", "a='b':~/x", "a=b:~:c", "a=\\\n~",
    "a=$'b:':~", r"$'\cA'", r"$'\c?'", r"a$'b\x{41}'", r"$'\x{'"],
)  # fmt: skip
def test_what_a_shell_would_expand_is_refused(text: str) -> None:
    with refused(FormatError, "curl.shell"):
        parse_words(text)


@pytest.mark.skipif(BASH is None, reason="needs bash, the measure of this reader")
@pytest.mark.parametrize(
    "text",
    ["'~'", "\\~", '"~"/x', "~'root'/x", "~ro\\ot", "~'/x'", "''~", "a~", "a:~", "a=b=~", "a.b=~", "'a'=~", "a='b:'~", "a==~", "a=b~",
     "--data=~", "-da=~", "1a=~", "@~", "http://a/~b", "http://a/?b=~", "a=\\:~", "a\\\nb", "'a'\\\n'b'", "a \\\n b", "$'a\\u00e9'\\'",
     " ".join(rf"$'\{letter}.'" for letter in string.printable[:95] if letter not in "0c"), r"$'\1\12\1012\777\x4\x412\xg\u4\ug'"],
)  # fmt: skip
def test_what_bash_leaves_as_it_is_is_read_as_bash_reads_it(text: str) -> None:
    script = f"printf '%s\\0' {text}"
    read = subprocess.run([str(BASH), "-c", script], check=True, capture_output=True, timeout=20).stdout
    assert parse_words(text) == tuple(read.split(b"\0")[:-1])


@pytest.mark.parametrize(
    "command", ["curl http://a -d $'a\\x00b'", "curl http://a -d 'a\0b'", 'curl ^"http://a^" -d "a\0b"']
)
def test_a_nul_at_which_a_program_s_argument_ends_is_refused(command: str) -> None:
    assert code(command) == "curl.shell"


@pytest.mark.parametrize(
    "command",
    [
        "wget a", "", "curl", "curl a b", f"curl {URL} -F a=b", f"curl {URL} -T file", f"curl {URL} -K config", f"curl {URL} -H",
        f"curl {URL} -H 'no header'", f"curl {URL} -H Digest", f"curl {URL} -H 'X-A; '",
        f"curl {URL} --unknown", f"curl {URL} --next", "curl -X", "curl 'https://a/{b,c}'",
        "curl 'https://a/[1-2]'", f"curl {URL} -I -d a", f"curl {URL} -u name",
    ],
)  # fmt: skip
def test_an_option_that_is_not_known_is_refused(command: str) -> None:
    assert code(command) in {"curl.option", "curl.shell"}


@pytest.mark.parametrize("options", ["--data-urlencode 'a=b c'", "-G -d a=%2F", "-G --data-urlencode a=/"])
def test_what_versions_of_curl_write_otherwise_is_refused(options: str) -> None:
    assert code(f"curl {URL} {options}") == "curl.option"


@pytest.mark.parametrize("path", ["/a/../b", "/a/./b", "/a/..", "/a/%2e%2E/b", "/.?x"])
def test_dots_that_curl_would_rewrite_are_refused(path: str) -> None:
    assert code(f"curl https://a{path}") == "curl.option"
    assert parse_curl(f"curl --path-as-is https://a{path}").target == path


@pytest.mark.parametrize(
    ("command", "fault"),
    [
        ("curl 'https://a/ b'", "message.address"), ("curl 'https://a/é'", "message.address"),
        (f"curl {URL} -X 'P O'", "message.malformed"), ("curl file:///etc/passwd", "message.address"),
    ],
)  # fmt: skip
def test_a_target_that_cannot_be_sent_is_refused(command: str, fault: str) -> None:
    assert code(command) == fault


def test_a_header_cannot_forge_another() -> None:
    assert code(f"curl {URL} -H $'A: b\\r\\nC: d'") == "header.control-character"


@given(st.text() | st.text(alphabet="curl -dHX@'\"$\\\n=:/ahtps;", max_size=60).map("curl ".__add__))
def test_only_format_error_escapes(text: str) -> None:
    with suppress(FormatError):
        parse_curl(text)


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\r\0"), max_size=12), max_size=6))
def test_words_that_were_quoted_come_back(words: list[str]) -> None:
    assert parse_words(shlex.join(words)) == tuple(word.encode() for word in words)


def sent_by_curl(arguments: list[str], address: str = "http://{}/a?b=%2F") -> bytes:
    """What curl puts on the wire for these arguments, the address apart."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(20)
        received: list[bytes] = []

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                raw = b""
                while not _is_whole(raw):
                    raw += connection.recv(65536)
                received.append(raw)
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        url = address.replace("{}", f"127.0.0.1:{server.getsockname()[1]}", 1)
        subprocess.run([str(CURL), "-s", "--noproxy", "*", *arguments, url], check=True, timeout=20)
        thread.join(timeout=20)
        return received[0]


def _is_whole(raw: bytes) -> bool:
    head, separator, body = raw.partition(b"\r\n\r\n")
    length = next((int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")), 0)
    return bool(separator) and len(body) >= length


@pytest.mark.skipif(CURL is None, reason="needs curl, the measure of this reader")
@pytest.mark.parametrize(
    "arguments",
    [
        ["-d", "a=1", "-d", "b\nc"], ["-X", "PUT", "--data-raw", "@x"], ["--data-urlencode", "q=ä/b~-._"], ["--json", '{"a": 1}'],
        ["-G", "-d", "c=1", "--data-urlencode", "d=e"], ["-H", "Accept:", "-H", "X-Empty;", "-H", "X-A:  b "], ["-u", "me:secret"],
        ["-A", "agent", "-e", "http://ref", "-b", "a=b"], ["-X", "DELETE"], ["-d", ""],
        ["-u", "a:b", "-H", "Authorization: X"], ["-u", "a:b", "-H", "Authorization:"], ["-u", "a:b", "-u", "c:d"],
        ["-b", "a=b", "-H", "Cookie: c=d"], ["-b", "a=b", "-b", "c=d; e=f"], ["-A", "x", "-A", "y"], ["-A", "x", "-H", "User-Agent: z"],
        ["-e", "x", "-e", "y;auto"], ["--compressed"], ["--compressed", "-H", "Accept-Encoding: x"], ["-X", "get"], ["-G", "-d", ""],
        ["-G", "-I", "-d", "x"], ["-H", "Content-Type: a", "--json", "{}"],
        ["-G", "--json", "{}"], ["-G", "-I", "-d", "a", "--json", "b"], ["-G", "--json", "1", "-H", "Accept: a", "-H", "Content-Type:"],
    ],
)  # fmt: skip
def test_curl_itself_sends_the_same(arguments: list[str]) -> None:
    require_same(arguments, "http://{}/a?b=%2F")


@pytest.mark.skipif(CURL is None, reason="needs curl, the measure of this reader")
@pytest.mark.parametrize(
    ("arguments", "address"),
    [
        (["-G", "-d", "x=1"], "http://{}/a?"), (["-G", "-d", "x=1"], "http://{}/a?b&"), (["-G", "-d", "x=1"], "http://{}"),
        (["-G", "-d", "x=1"], "http://{}/a#f"), (["-G", "-d", ""], "http://{}/a"), ([], "http://u%40x:p@{}/"), ([], "http://u@{}/"),
        (["-u", "a:b"], "http://u:p@{}/"), (["-H", "Authorization: X"], "http://u:p@{}/"), (["-g"], "http://{}/{a}[1-2]"),
    ],
)  # fmt: skip
def test_curl_itself_sends_the_same_to_other_addresses(arguments: list[str], address: str) -> None:
    require_same(arguments, address)


def require_same(arguments: list[str], address: str) -> None:
    raw = parse_request(sent_by_curl(arguments, address))
    url = address.replace("{}", header(raw, "host"), 1)
    read = parse_curl(shlex.join(["curl", *arguments, url]), as_found=True)
    assert (read.method, read.target, read.body) == (raw.method, raw.target, raw.body)
    own = set() if "-A" in arguments else {"user-agent"}  # whose value has curl's version
    assert sorted((n.lower(), v) for n, v in read.headers) == sorted(
        (n.lower(), v) for n, v in raw.headers if n.lower() not in own
    )


@pytest.mark.skipif(CURL is None, reason="needs curl, the measure of this reader")
@pytest.mark.parametrize(
    "hosts",
    [
        ["Host: z", "Host: y"], ["Host: z", "host: z"], ["Host:", "Host: z"], ["Host:", "Host: z", "Host: y"], ["Host: z", "Host:"],
        ["Host;", "Host: z"], ["X-A: b", "HOST: z", "X-A: b", "Host: y"],
    ],
)  # fmt: skip
def test_curl_itself_sends_the_same_of_several_hosts(hosts: list[str]) -> None:
    arguments = [word for host in hosts for word in ("-H", host)]
    raw = parse_request(sent_by_curl(arguments, "http://{}/a"))
    read = parse_curl(shlex.join(["curl", *arguments, "http://h/a"]))
    assert [read.values(name) for name in ("host", "x-a")] == [raw.values(name) for name in ("host", "x-a")]


def test_the_program_is_known_by_its_name_on_windows() -> None:
    assert parse_curl(f"curl.exe {URL}").method == "GET"
    assert parse_curl(f"'C:\\Windows\\System32\\curl.exe' {URL}").method == "GET"


def test_a_command_of_very_many_words_is_refused_at_its_bound() -> None:
    assert code(f"curl {URL} " + "-H 'a: b' " * 400_000) == "curl.shell"


def test_a_method_in_lower_case_is_read_only_as_found() -> None:
    assert code(f"curl -X get {URL}") == "message.malformed"
    assert parse_curl(f"curl -X get {URL}", as_found=True).method == "get"


def test_a_length_that_is_not_the_body_s_is_read_only_as_found() -> None:
    command = f"curl {URL} -H 'Content-Length: 5' -d abc"
    assert code(command) == "message.length"
    assert parse_curl(command, as_found=True).body == b"abc"


def test_an_ipv6_host_is_not_a_glob() -> None:
    assert header(parse_curl("curl 'https://[::1]:8443/a'"), "host") == "[::1]:8443"


CMD = (
    'curl ^"https://bank.example/a?b=1^&c=^%^2F^" ^\r\n  -X ^"PUT^" ^\r\n  -H ^"X-A: b ^\\^"c^\\^"^" ^\r\n'
    '  --data-raw ^"^{^\\^"a^\\^":^\\^"C:^\\^\\x^\\^",^\r\n\r\n^\\^"b^\\^":^\\^"50^% é^\\^"^}^"'
)


def test_the_form_of_browsers_for_windows_is_read() -> None:
    message = parse_curl(CMD)
    assert (message.method, message.target) == ("PUT", "/a?b=1&c=%2F")
    assert header(message, "x-a") == 'b "c"'
    assert message.body == '{"a":"C:\\\\x",\n"b":"50% é"}'.encode()


def test_the_older_form_for_windows_is_read() -> None:
    command = 'curl "https://bank.example/a" ^\n  -H "X-A: b^c" ^\n  --data-binary "{\\"a\\":\\"C:\\\\\\"}"'
    message = parse_curl(command)
    assert (header(message, "x-a"), message.body) == ("b^c", b'{"a":"C:\\"}')


@pytest.mark.parametrize(
    "command",
    [
        "curl " + "a" * 400_000, "curl " + "'a'" * 200_000, "curl $'" + "\\x41" * 200_000 + "'", "curl http://" + "@" * 400_000,
        "curl -" + "s" * 800_000 + f" {URL}", 'curl ^"' + 'a"b"' * 100_000 + '"', 'curl "http://h/" ^\n -d "' + '""a' * 800_000 + '"',
    ],
    ids=["address", "quoted", "escaped", "at-signs", "letters", "cmd-address", "cmd-data"],
)  # fmt: skip
def test_a_long_word_takes_time_by_its_length_and_not_by_the_square_of_it(command: str) -> None:
    started = time.process_time()
    with suppress(FormatError):
        parse_curl(command)
    assert time.process_time() - started < 10


def test_letters_behind_one_hyphen_are_options_each_and_never_one_of_two_hyphens() -> None:
    assert parse_curl(f"curl -sSXPUT {URL} -kd'a b'").body == b"a b"
    assert code(f"curl -s-get -d a {URL}") == "curl.option"


@pytest.mark.parametrize(
    "address", ["https://[::1]/{a,b}", "https://u[1-2]@h/", "https://[a-b].h/", "https://h/?u=https://[::1]"]
)
def test_no_part_of_an_address_but_an_ipv6_host_may_hold_a_glob(address: str) -> None:
    assert code(f"curl '{address}'") == "curl.option"


def test_many_options_are_looked_at_once() -> None:
    # Read in two ways each, thirty options would take minutes.
    assert parse_curl("curl " + "--globoff " * 30 + URL).method == "GET"
    assert parse_curl("curl " + "-g --globoff " * 200 + URL).method == "GET"


@pytest.mark.parametrize("body", ["a ^\n -H b", 'a "b" ^\r\n  -H b'])
def test_a_caret_at_a_line_s_end_between_single_quotes_is_the_body_s(body: str) -> None:
    assert parse_curl(f"curl --data-raw '{body}' {URL}").body == body.encode()
    assert parse_curl(f"curl {URL} \\\n --data-raw '{body}'").body == body.encode()


def test_a_single_quote_between_double_quotes_is_a_letter_for_cmd() -> None:
    assert parse_curl('curl "https://a/it\'s" ^\n -H "A: b" -d "it\'s"').body == b"it's"


@pytest.mark.parametrize(
    "command",
    ['curl ^"https://a/^" & b', 'curl ^"https://a/^" > b', 'curl ^"https://a/%PATH%^"', 'curl ^"https://a/', 'curl ^"https://a/^"\nb',
     'curl ^"a^'],
)  # fmt: skip
def test_what_cmd_would_expand_is_refused(command: str) -> None:
    assert code(command) == "curl.shell"


@given(st.text(alphabet='^"\\ \r\n%&a1-é', max_size=40).map('curl ^"https://a/^" '.__add__))
def test_only_format_error_escapes_from_a_command_of_windows(text: str) -> None:
    with suppress(FormatError):
        parse_curl(text)
