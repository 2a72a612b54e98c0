"""Which errors of an exec say that its command was not begun: those alone are a reason to ask again."""

import pytest

from testkit.cluster_client import is_never_begun

INTERNAL = "error: Internal error occurred: error executing command in container: failed to exec in container: "
NEVER_BEGUN = [
    INTERNAL + "failed to load task: context deadline exceeded",
    INTERNAL + 'failed to create exec "c0ffee": task f00 not found: not found',
    'error: unable to upgrade connection: container not found ("agent")',
    'error: Internal error occurred: unable to upgrade connection: container not found ("agent")',
    "Error from server: error dialing backend: dial tcp 172.31.0.2:10250: connect: connection refused",
]
PERHAPS_BEGUN = [
    "command terminated with exit code 1",
    "touch: cannot touch '/tmp/go': No space left on device\ncommand terminated with exit code 1",
    "error dialing backend\ncommand terminated with exit code 1",
    INTERNAL + 'failed to start exec "c0ffee": OCI runtime exec failed: fork: resource temporarily unavailable',
    "error: Timeout occurred",
    "error: stream error: stream ID 1; INTERNAL_ERROR; received from peer",
]


def failed(said: str) -> str:
    return f"kubectl exec -n space pod -c agent -- sh -euc touch /tmp/go failed (1): {said}\n"


@pytest.mark.parametrize("said", NEVER_BEGUN)
def test_what_was_never_begun_may_be_asked_for_again(said: str) -> None:
    assert is_never_begun(failed(said))


@pytest.mark.parametrize("said", PERHAPS_BEGUN)
def test_what_may_have_begun_never_is(said: str) -> None:
    assert not is_never_begun(failed(said))


def test_a_command_that_speaks_of_it_is_not_taken_for_it() -> None:
    assert not is_never_begun("kubectl exec pod -- echo failed to load task failed (1): no\n")
