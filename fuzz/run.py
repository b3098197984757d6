"""Fuzz one reader, or all in turn: `python fuzz/run.py [NAME...] --seconds 60`. Coverage-guided, by atheris (libFuzzer).

Ends with 0 when nothing but `FormatError` escaped within the time, the memory (1 GB) and the time per input (5 s).
A failing input is written to the current folder as crash-*, oom-* or timeout-*.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path


def main() -> int:
    """Each reader in a process of its own: libFuzzer ends the one it runs in."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="readers; all of them by default")
    parser.add_argument("--seconds", type=int, default=60, help="for each reader")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.here:
        return fuzz(arguments.names[0], arguments.seconds)

    from targets import TARGETS

    unknown = set(arguments.names) - set(TARGETS)
    if unknown:
        parser.error(f"no such reader: {', '.join(sorted(unknown))}; there are {', '.join(TARGETS)}")
    failed = []
    for name in arguments.names or TARGETS:
        command = [sys.executable, __file__, name, "--seconds", str(arguments.seconds), "--here"]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        runs = next((line for line in reversed(done.stderr.splitlines()) if line.startswith("Done ")), "stopped early")
        print(f"{name:<26} {'ok  ' if done.returncode == 0 else 'FAIL'} {runs}", flush=True)
        if done.returncode:
            failed.append(name)
            print(done.stderr[-4000:], file=sys.stderr)
    return 1 if failed else 0


def fuzz(name: str, seconds: int) -> int:
    """Run libFuzzer on one reader; does not return when it finds something."""
    import atheris

    with atheris.instrument_imports(include=["tppkit"]):
        from targets import TARGETS

    target = TARGETS[name]
    with tempfile.TemporaryDirectory() as folder:
        for number, seed in enumerate(target.seeds()):
            (Path(folder) / f"seed-{number}").write_bytes(seed)
        options = [f"-max_total_time={seconds}", "-timeout=5", "-rss_limit_mb=1024", "-max_len=8192"]
        atheris.Setup([sys.argv[0], *options, folder], target.run)
        atheris.Fuzz()
    return 0


if __name__ == "__main__":
    sys.exit(main())
