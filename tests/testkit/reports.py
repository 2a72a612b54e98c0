"""A keeper's report on the wire, as a test needs it."""

from copy import deepcopy
from typing import Any

CHALLENGE = "0123456789abcdef0123456789abcdef"

_WHOLE: dict[str, Any] = {
    "version": "0.1.0",
    "boot": "b00t",
    "marker": {"slot": "slot-1", "epoch": 3, "recovery": "Restored", "source": {"epoch": 2, "sequence": 1}},
    "workspace": {"state": "Ready", "code": "", "message": "", "files": 3, "bytes": 5},
    "evidence": {
        "challenge": CHALLENGE,
        "round": 1,
        "runtime": {"version": "Linux version 4.4.0 gVisor", "release": "4.4.0"},
        "probes": [{"name": "canary", "outcome": "Refused", "milliseconds": 12}],
    },
    "gate": {"challenge": CHALLENGE, "opened": ""},
    "agent": {"state": "Waiting", "exitCode": 0, "message": ""},
    "archive": {"sequence": 1, "state": "Failed", "code": "snapshot_store_unavailable", "message": "no answer"},
}


def wire_report(**sections: Any) -> dict[str, Any]:
    """A whole report in which the given sections are replaced."""
    return {**deepcopy(_WHOLE), **sections}
