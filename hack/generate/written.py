"""Writes generated files, or says how the ones in the tree differ from what would be written now."""

import difflib
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def run(arguments: Sequence[str], files: Callable[[], Mapping[str, str]], folders: Mapping[str, str]) -> int:
    """Write the files, or with `--check` compare them: 1 when one differs, is missing, or should not be there.

    `folders` are wholly generated: a folder to the pattern of the files in it.
    """
    wanted = files()
    surplus = [path for path in _present(folders) if path not in wanted]
    if list(arguments) == ["--check"]:
        return check(wanted, surplus)
    if arguments:
        print(f"unknown argument {arguments[0]}; there is only --check", file=sys.stderr)
        return 2
    for path, text in wanted.items():
        target = ROOT / path
        target.parent.mkdir(parents=True, exist_ok=True)
        if not target.exists() or target.read_text() != text:
            target.write_text(text)
            print(f"wrote {path}")
    for path in surplus:
        (ROOT / path).unlink()
        print(f"removed {path}")
    return 0


def check(wanted: Mapping[str, str], surplus: Sequence[str]) -> int:
    """Compare without writing."""
    failed = False
    for path, text in wanted.items():
        target = ROOT / path
        present = target.read_text() if target.exists() else ""
        if present != text:
            failed = True
            lines = difflib.unified_diff(present.splitlines(), text.splitlines(), path, f"{path} (generated)", n=1)
            print("\n".join(lines), file=sys.stderr)
    for path in surplus:
        failed = True
        print(f"{path}: nothing generates this file any more", file=sys.stderr)
    if failed:
        print("generated files differ: run make generate", file=sys.stderr)
    return int(failed)


def _present(folders: Mapping[str, str]) -> list[str]:
    return sorted(
        str(path.relative_to(ROOT)) for folder, pattern in folders.items() for path in (ROOT / folder).glob(pattern)
    )
