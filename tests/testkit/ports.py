"""Ports on loopback for the servers that tests start, of which no two test processes of this machine get the same.

A port that is free now may be a neighbour's before its server has bound it. So every process claims blocks of ports and
takes its own only from them. A claim is an abstract Unix socket: it is seen where the ports are (in one network
namespace), it needs no folder, and it ends with the process, however that ends. What is not a test takes no notice of
claims; therefore a port is looked at before it is given away.
"""

import contextlib
import random
import socket

_FIRST, _END = 12000, 32000
"""Below those that the kernel gives to connections that go out."""
_BLOCK = 100
_CLAIM = "\0sandhold-tests-ports-{}"

_claims: list[socket.socket] = []
"""Held for as long as the process lives."""
_untried: list[int] = []
"""What is left of the claimed blocks. No port twice: among the thousands of a test run equal ones would not be rare."""


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on now, and that no other test will."""
    found: list[int] = []
    while len(found) < count:
        if not _untried:
            _untried.extend(_claimed_block())
        port = _untried.pop()
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            found.append(port)
    return found


def free_port() -> int:
    """One of them."""
    return free_ports(1)[0]


def _claimed_block() -> range:
    starts = range(_FIRST, _END, _BLOCK)
    # Not the first that is free: there the server of a test run that was killed may still be.
    for start in random.sample(starts, len(starts)):
        claim = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        try:
            claim.bind(_CLAIM.format(start))
        except OSError:
            claim.close()
        else:
            _claims.append(claim)
            return range(start, start + _BLOCK)
    raise RuntimeError(f"all ports from {_FIRST} to {_END} are claimed by test processes that run now")
