"""Running other programs: always with a bound, and with their own words in the error when they fail."""

import subprocess
from collections.abc import Sequence

from testbed.failure import TestbedError


def run(argv: Sequence[str], *, timeout: float = 60, stdin: str | None = None) -> str:
    """Run a program to its end and return what it printed; a failure or an overrun is a readable error."""
    try:
        done = subprocess.run(argv, check=False, text=True, timeout=timeout, input=stdin, capture_output=True)
    except FileNotFoundError as error:
        raise TestbedError(f"{argv[0]} is not installed") from error
    except subprocess.TimeoutExpired as error:
        raise TestbedError(f"`{' '.join(argv)}` did not end within {timeout:.0f} s") from error
    if done.returncode:
        said = (done.stderr.strip() or done.stdout.strip())[-2000:]
        raise TestbedError(f"`{' '.join(argv)}` failed ({done.returncode}): {said}")
    return done.stdout
