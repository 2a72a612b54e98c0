"""Program: keeps every log in a folder below a bound, for daemons that only write to their standard output.

All of them append, so a log can be cut under its writer: the newest half is kept, what is written during the cut may
be lost. The alternative, a pipe to a rotating reader, would end a daemon whenever its reader dies.
"""

import sys
import threading
from pathlib import Path

LARGEST = 16 * 1024 * 1024
EVERY_SECONDS = 5


def trim(log: Path) -> None:
    """Cut a log that has outgrown the bound to its newest half, at a line's start."""
    if log.stat().st_size <= LARGEST:
        return
    with log.open("r+b") as file:
        file.seek(-LARGEST // 2, 2)
        kept = file.read()
        kept = kept[kept.find(b"\n") + 1 :]
        file.seek(0)
        file.write(kept)
        file.truncate()


def main() -> None:
    """Look at the folder again and again until ended."""
    ending = threading.Event()
    while not ending.wait(EVERY_SECONDS):
        for log in Path(sys.argv[1]).glob("*.log"):
            trim(log)


if __name__ == "__main__":
    main()
