"""What a folder contains, to compare it before and after."""

from __future__ import annotations

from pathlib import Path


def contents(path: Path) -> dict[str, bytes]:
    """Every file of a folder."""
    return {str(p.relative_to(path)): p.read_bytes() for p in path.rglob("*") if p.is_file()}
