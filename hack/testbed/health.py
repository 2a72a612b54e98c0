"""Asking the daemons whether they serve; one that does not answer yet is not an error but a no."""

import http.client
import socket
import ssl
import sys
from collections.abc import Callable

from testbed import places
from testbed.commands import run
from testbed.failure import TestbedError
from testbed.network import inside

ANSWER_SECONDS = 2


def answers(port: int, path: str, *, tls: bool = False) -> Callable[[], bool]:
    """Whether this port of the node says 200; the certificate is not the question here."""

    def ask() -> bool:
        connection: http.client.HTTPConnection
        if tls:
            unverified = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            unverified.check_hostname, unverified.verify_mode = False, ssl.CERT_NONE
            connection = http.client.HTTPSConnection(
                places.NODE_ADDRESS, port, timeout=ANSWER_SECONDS, context=unverified
            )
        else:
            connection = http.client.HTTPConnection(places.NODE_ADDRESS, port, timeout=ANSWER_SECONDS)
        try:
            connection.request("GET", path)
            return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    return ask


def listens(path: str) -> Callable[[], bool]:
    """Whether somebody accepts connections on this unix socket: the file alone may be a dead daemon's."""

    def ask() -> bool:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(ANSWER_SECONDS)
            try:
                connection.connect(path)
            except OSError:
                return False
            return True

    return ask


def accepts_inside(address: str, port: int) -> Callable[[], bool]:
    """Whether somebody accepts connections on an address that exists only inside the cluster's network."""
    probe = f"import socket; socket.create_connection(({address!r}, {port}), {ANSWER_SECONDS})"

    def ask() -> bool:
        try:
            run(inside(sys.executable, "-S", "-E", "-c", probe), timeout=10)
        except TestbedError:
            return False
        return True

    return ask
