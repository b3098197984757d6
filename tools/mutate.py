"""Remove each check of the verifying code in turn, and list those that no fast test misses.

    python tools/mutate.py [--file verify.py] [--list] [--json FILE]

tools/survivors.txt has the known ones: another check gives the same verdict, or they only save time. A survivor that is not among
them gives exit 1.

A check is a condition whose block ends in `raise`, `return`, `break` or `continue`, each operand of its `and` and `or`, each operand
of those that a `return` has, and a call of a `require`, `check` or `verify` function that is a statement. Mutants are made in
copies of src/; the checkout is not touched. Leave the tests alone while it runs: they are those of the checkout.
"""

from __future__ import annotations

import argparse
import ast
import compileall
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import repeat
from pathlib import Path
from queue import SimpleQueue
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
KNOWN = ROOT / "tools/survivors.txt"
PARALLEL = 2
_CHECK = re.compile(r"_?(require|check|verify)(_\w+)?")

# The mutated files by pattern | the tests that usually notice, in their order | the other fast tests of the group.
GROUPS = (
    ("seals/verify.py", "test_verify test_verify_certificates test_verify_mutations", "seals/test_*.py"),
    ("seals/verified.py", "test_verify", "seals/test_*.py"),
    ("web/gate.py", "test_authorize test_seal test_routing test_seal_wsgi test_proxies test_seal_profiles", "web/test_[prw]*[!s].py"),
    ("web/caller.py", "test_caller test_proxies test_seal test_seal_profiles", "web/test_[prw]*[!s].py"),
    ("callbacks/verify.py", "test_callback_refusals test_callback_verify", "callbacks/test_callback_*.py"),
    ("callbacks/signature.py", "test_callback_signature test_callback_refusals", "callbacks/test_callback_*.py"),
    ("protocol/gateway/query.py", "test_gateway_query", "protocol/test_gateway_*.py"),
    ("protocol/gateway/search.py", "test_gateway_search", "protocol/test_gateway_*.py"),
    (
        "protocol/gateway/*.py", "test_gateway_payments test_gateway_authorisations test_gateway_card_data test_gateway_models",
        "protocol/test_gateway_*.py",
    ),
    ("trust/reload.py", "test_reload", "trust/test_reload.py"),
    ("trust/material*.py", "test_reload test_material", "trust/test_re[lt]*.py"),
    ("trust/path/name_constraints.py", "test_name_constraints test_second_opinion", "trust/test_*.py"),
    ("trust/path/link*.py", "test_link_extensions test_wrong_chains test_path test_name_constraints", "trust/test_*.py"),
    ("trust/path/policies.py", "test_policies test_second_opinion", "trust/test_*.py"),
    ("trust/path/*.py", "test_wrong_chains test_path test_path_times test_candidates test_second_opinion", "trust/test_*.py"),
    ("trust/revocation/crl.py", "test_crl test_revocation", "trust/test_*.py"),
    ("trust/revocation/ocsp*.py", "test_ocsp test_responders test_revocation", "trust/test_*.py"),
    ("trust/revocation/*.py", "test_revocation test_fetched test_crl test_retained test_partial_answers", "trust/test_*.py"),
)  # fmt: skip


class Mutant(NamedTuple):
    """One removal: the bytes from `start` to `end` are replaced by `new`."""

    line: int
    start: int
    end: int
    new: str
    check: str
    removed: str

    def apply(self, source: bytes) -> bytes:
        return source[: self.start] + self.new.encode() + source[self.end :]


def find_mutants(source: bytes) -> list[Mutant]:
    """Every check of a module, in the order of the source."""
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    found = []
    for check, node, new in _removals(ast.parse(source)):
        start = starts[node.lineno - 1] + node.col_offset
        end = starts[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0)
        removed = " ".join(source[start:end].decode().split())
        found.append(Mutant(node.lineno, start, end, new, " ".join(ast.unparse(check).split()), removed))
    return sorted(found, key=lambda mutant: (mutant.start, -mutant.end))


def _removals(tree: ast.Module) -> Iterator[tuple[ast.AST, ast.expr | ast.stmt, str]]:
    """(the check, what of it is removed, the neutral text in its place)."""
    for node in ast.walk(tree):
        if isinstance(node, ast.If):
            parts = list(_parts(node.test, "True" if _refuses(node.orelse) else "False"))
            if not (_leaves(node.body) or _refuses(node.orelse)):
                # An `or` may guard inner checks: its operands count here, and they count themselves.
                inner = [child for part in node.body for child in ast.walk(part)]
                is_guard = any(isinstance(child, ast.Raise) or _is_check(child) for child in inner)
                parts = [(part, new) for part, new in parts[1:] if is_guard and new == "False"]
            yield from ((node.test, part, new) for part, new in parts)
        elif isinstance(node, ast.Return) and node.value:
            test = node.value.test if isinstance(node.value, ast.IfExp) else node.value
            yield from ((test, part, new) for part, new in list(_parts(test, ""))[1:])
        elif isinstance(node, ast.Expr) and _is_check(node):
            yield node, node, "pass"


def _refuses(block: Sequence[ast.stmt]) -> bool:
    last = block[-1] if block else None
    is_false = isinstance(last, ast.Return) and isinstance(last.value, ast.Constant) and last.value.value is False
    return is_false or isinstance(last, ast.Raise)


def _leaves(block: Sequence[ast.stmt]) -> bool:
    return isinstance(block[-1], ast.Raise | ast.Return | ast.Break | ast.Continue)


def _is_check(node: ast.AST) -> bool:
    if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)):
        return False
    function = node.value.func
    return _CHECK.fullmatch(getattr(function, "attr", getattr(function, "id", ""))) is not None


def _parts(test: ast.expr, neutral: str) -> Iterator[tuple[ast.expr, str]]:
    """The condition itself and each operand of its `and` and `or`, with the text that makes it count no more."""
    yield test, neutral
    inner = test.operand if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not) else test
    if isinstance(inner, ast.BoolOp):
        for operand in inner.values:
            yield from _parts(operand, "False" if isinstance(inner.op, ast.Or) else "True")


def list_mutants(patterns: Sequence[str]) -> Iterator[tuple[Path, Mutant, list[str]]]:
    """(the file below src/tppkit, the mutant, the test files in the order in which they run)."""
    source, seen = ROOT / "src/tppkit", set[Path]()
    for pattern, first, others in GROUPS:
        group = [Path(others).parent / f"{name}.py" for name in first.split()]
        rest = sorted(path.relative_to(ROOT / "tests") for path in (ROOT / "tests").glob(others))
        tests = [f"tests/{path}" for path in dict.fromkeys([*group, *rest])]
        for path in sorted(set(source.glob(pattern)) - seen):
            seen.add(path)
            file = path.relative_to(source)
            if not patterns or any(str(file).endswith(name) for name in patterns):
                yield from ((file, mutant, tests) for mutant in find_mutants(path.read_bytes()))


def run_tests(src: Path, tests: Sequence[str], *, timeout_s: float | None) -> str:
    """`survived`, `killed` or `hung`; the output of the tests is dropped."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-n", "0", "-p", "no:cacheprovider", *_marker(), *tests]
    environment = os.environ | {"PYTHONPATH": str(src), "PYTHONDONTWRITEBYTECODE": "1"}
    with subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    ) as process:
        try:
            return "killed" if process.wait(timeout_s) else "survived"
        except subprocess.TimeoutExpired:
            return "hung"
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)


def _marker() -> tuple[str, ...]:
    markers = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]["markers"]
    return ("-m", "not slow") if any(marker.startswith("slow:") for marker in markers) else ()


class Copies:
    """Copies of src/, one for each run at a time."""

    def __init__(self, folder: Path) -> None:
        self._free = SimpleQueue[Path]()
        for number in range(PARALLEL):
            copy = shutil.copytree(ROOT / "src", folder / str(number), ignore=shutil.ignore_patterns("__pycache__"))
            compileall.compile_dir(copy, quiet=2)
            self._free.put(copy)

    def limit(self, tests: Sequence[str]) -> float:
        """How long the tests may take with a mutant: three times as long as without, and 30 s."""
        src, begin = self._free.get(), time.monotonic()
        if run_tests(src, tests, timeout_s=None) != "survived":
            sys.exit(f"the tests fail without any change: pytest -n 0 {' '.join(tests)}")
        self._free.put(src)
        return 30 + 3 * (time.monotonic() - begin)

    def judge(self, file: Path, mutant: Mutant, tests: Sequence[str], timeout_s: float) -> str:
        """The verdict of the tests on one mutant."""
        src = self._free.get()
        path = src / "tppkit" / file
        source = path.read_bytes()
        try:
            path.write_bytes(mutant.apply(source))  # its new time makes the compiled file stale
            return run_tests(src, tests, timeout_s=timeout_s)
        finally:
            path.write_bytes(source)
            self._free.put(src)


def judge_all(mutants: Sequence[tuple[Path, Mutant, list[str]]]) -> Iterator[str]:
    """The verdict of each, in order."""
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(PARALLEL) as pool:
        copies = Copies(Path(folder))
        files, removed, tests = zip(*mutants, strict=True)
        groups = [frozenset(one) for one in tests]
        limits = {group: copies.limit(sorted(group)) for group in dict.fromkeys(groups)}
        yield from pool.map(copies.judge, files, removed, tests, [limits[group] for group in groups])


def main() -> int:
    parser = argparse.ArgumentParser(description="Remove each check in turn, and list those that no fast test misses.")
    parser.add_argument("--file", action="append", default=[], help="only files whose path ends so; may be repeated")
    parser.add_argument("--list", action="store_true", help="list what would be removed, and run nothing")
    parser.add_argument("--json", type=Path, help="write every mutant with its verdict to this file")
    options = parser.parse_args()
    mutants, rows, new, begin = list(list_mutants(options.file)), [], 0, time.monotonic()
    if not mutants:
        parser.error(f"no file has a check: {', '.join(options.file)}")
    known = Counter(KNOWN.read_text().splitlines())
    for (file, mutant, _), verdict in zip(mutants, repeat("") if options.list else judge_all(mutants), strict=False):
        rows.append({"file": str(file), **mutant._asdict(), "verdict": verdict})
        if options.list or verdict == "survived":
            text = f"{mutant.check}   removed: {mutant.removed}"
            is_new = not options.list and is_unknown(f"{file}: {text}", known)
            print(f"{file}:{mutant.line}: {text}{'   NEW' if is_new else ''}", flush=True)
            new += is_new
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")
    if not options.list:
        survivors = sum(row["verdict"] == "survived" for row in rows)
        print(f"{survivors} of {len(rows)} mutants survived, {new} of them new, in {time.monotonic() - begin:.0f} s")
    return 1 if new else 0


def is_unknown(survivor: str, known: Counter[str]) -> bool:
    """Whether a survivor is not known; one of several with the same text is struck off."""
    known[survivor] -= 1
    return known[survivor] < 0


if __name__ == "__main__":
    sys.exit(main())
