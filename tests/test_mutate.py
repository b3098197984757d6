"""tools/mutate.py finds the checks of a source, and removes them."""

from __future__ import annotations

from collections import Counter

import pytest

from mutate import GROUPS, KNOWN, ROOT, find_mutants, is_unknown, list_mutants, run_tests

pytestmark = pytest.mark.slow

SAMPLE = b"""\
def take(name, size):
    require_name(name)
    if "\xc3\xa9" in name or (
        size > 9
    ):
        raise ValueError
    if not (size and name):
        return None
    elif size < 0:
        message = "negative"
        raise ValueError(message)
    if name.isascii() or size == 7:
        if size % 2 == 0:
            raise ValueError
    return size

def require_name(name):
    if name.islower():
        return
    else:
        raise ValueError

def is_short(name, size):
    if size == 8:
        return False
    return name.isupper() and size < 9

def find(name, size):
    return size if name.istitle() and size else None

def join(names, end):
    joined = ""
    for name in names:
        if name == end:
            break
        if name in joined:
            continue
        joined += name
    return joined
"""
MUTANTS = {mutant.removed: mutant for mutant in find_mutants(SAMPLE)}


def take(source: bytes, *arguments: object, function: str = "take") -> object:
    module: dict[str, object] = {}
    exec(source, module)
    return module[function](*arguments)


def test_each_check_and_each_operand_is_found_in_the_order_of_the_source():
    assert [(mutant.line, mutant.removed) for mutant in find_mutants(SAMPLE)] == [
        (2, "require_name(name)"),
        (3, '"é" in name or ( size > 9 )'),
        (3, '"é" in name'),
        (4, "size > 9"),
        (7, "not (size and name)"),
        (7, "size"),
        (7, "name"),
        (9, "size < 0"),
        (12, "name.isascii()"),
        (12, "size == 7"),
        (13, "size % 2 == 0"),
        (18, "name.islower()"),
        (24, "size == 8"),
        (26, "name.isupper()"),
        (26, "size < 9"),
        (29, "name.istitle()"),
        (29, "size"),
        (34, "name == end"),
        (36, "name in joined"),
    ]


@pytest.mark.parametrize(
    ("removed", "arguments"),
    [
        ("require_name(name)", ("UPPER", 1)),
        ('"é" in name', ("é", 1)),
        ("size > 9", ("name", 11)),
        ("size < 0", ("name", -1)),
        ("size % 2 == 0", ("name", 2)),
        ("name.isascii()", ("name", 2)),
        ("name.islower()", ("UPPER", 1)),
    ],
)
def test_what_a_check_refuses_passes_without_it(removed, arguments):
    with pytest.raises(ValueError):
        take(SAMPLE, *arguments)
    assert take(MUTANTS[removed].apply(SAMPLE), *arguments) == arguments[1]


@pytest.mark.parametrize(
    ("removed", "arguments"),
    [("size == 8", ("UPPER", 8)), ("name.isupper()", ("lower", 1)), ("size < 9", ("UPPER", 9))],
)
def test_what_a_check_denies_is_granted_without_it(removed, arguments):
    assert take(SAMPLE, *arguments, function="is_short") is False
    assert take(MUTANTS[removed].apply(SAMPLE), *arguments, function="is_short") is True


@pytest.mark.parametrize(
    ("removed", "function", "arguments", "before", "after"),
    [
        ("not (size and name)", "take", ("ö", 0), None, 0),
        ("name == end", "join", ("abc", "b"), "a", "abc"),
        ("name in joined", "join", ("aba", ""), "ab", "aba"),
    ],
)
def test_what_a_check_skips_is_done_without_it(removed, function, arguments, before, after):
    assert take(SAMPLE, *arguments, function=function) == before
    assert take(MUTANTS[removed].apply(SAMPLE), *arguments, function=function) == after


def test_the_removal_of_one_operand_leaves_the_other():
    mutant = MUTANTS["size > 9"].apply(SAMPLE)
    with pytest.raises(ValueError):
        take(mutant, "é", 1)


def test_a_mutant_is_judged_by_the_tests_and_within_a_time(tmp_path):
    (tmp_path / "sample.py").write_text("LIMIT = 9")
    test = tmp_path / "test_sample.py"
    test.write_text("import sample\ndef test_limit(): assert sample.LIMIT == 9")
    assert run_tests(tmp_path, [str(test)], timeout_s=60) == "survived"
    assert run_tests(tmp_path, [str(test)], timeout_s=0.01) == "hung"
    (tmp_path / "sample.py").write_text("LIMIT = 99")
    assert run_tests(tmp_path, [str(test)], timeout_s=60) == "killed"


def test_every_row_has_checks_and_tests():
    mutants = list(list_mutants(()))
    for pattern, _, _ in GROUPS:
        assert any((ROOT / "src/tppkit" / file).match(f"tppkit/{pattern}") for file, _, _ in mutants), pattern
    for _, _, tests in mutants:
        assert all((ROOT / test).is_file() for test in tests)


def test_a_survivor_is_new_if_the_list_of_known_ones_lacks_it_or_has_it_less_often():
    known = Counter(["a.py: x > 1   removed: x > 1"])
    assert [is_unknown("a.py: x > 1   removed: x > 1", known) for _ in range(2)] == [False, True]
    assert is_unknown("b.py: x > 1   removed: x > 1", known)


def test_every_known_survivor_is_a_check_of_today():
    checks = [f"{file}: {mutant.check}   removed: {mutant.removed}" for file, mutant, _ in list_mutants(())]
    assert not Counter(KNOWN.read_text().splitlines()) - Counter(checks)
