"""What a keeper saw from inside the pod, judged: is this the promised runtime, and do the walls hold?

The keeper only observes. A verdict needs every probe that was asked for, and a positive control in the same round: the
canary is silent while its own mover answers at the port that the walls leave open. A silent canary alone may be a mover
that is gone, which is no verdict at all. What is missing, unclear or cut off is no proof, and without proof the gate
stays shut. Each start of init needs evidence of its own, told apart by its challenge.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from sandhold import names
from sandhold.desired import conditions
from sandhold.desired.runtime import Runtime, banner_fits
from sandhold.desired.world import Absent, Evidence, Installation, Present, Unknown
from sandhold.reasons import Refusal, RefusalCode, refuse

CANARY = "canary"
MOVER = "mover"
"""The keepers' port of the canary's mover, which is to answer."""
METADATA = "metadata"
METADATA_ADDRESS = "169.254.169.254"
API_SERVICE = "api-service"
API_ENDPOINT = "api-endpoint"
MOST_ENDPOINTS = 3
_REQUIRED = (CANARY, METADATA, API_SERVICE, f"{API_ENDPOINT}-1")
_CONNECTED = "Connected"
_WALLED = frozenset({"Refused", "TimedOut"})
_UNREACHED = frozenset({"Refused", "TimedOut", "Failed"})


@dataclass(frozen=True, slots=True)
class Probe:
    """One dial that a keeper is asked to try."""

    name: str
    address: str
    port: int


def probes(installation: Installation) -> tuple[Probe, ...] | Unknown:
    """What every keeper dials, or why that is not known. The first one must be the canary."""
    match installation.mover_canary:
        case Present((address, port)):
            mover = (Probe(CANARY, address, port), Probe(MOVER, address, names.PORT_KEEPERS))
        case Absent():
            return Unknown("no mover's canary is known")
        case Unknown():
            return installation.mover_canary
    match installation.api_server:
        case Present(found) if len(found) > 1:
            return (*mover, Probe(METADATA, METADATA_ADDRESS, 80), *_api_probes(found))
        case Unknown():
            return installation.api_server
        case _:
            return Unknown("the service address and an endpoint of the API server are not both known")


def _api_probes(found: Sequence[tuple[str, int]]) -> tuple[Probe, ...]:
    """The service, and a few of the endpoints: rejected dials are rate-limited by some walls, so few probes."""
    service, *endpoints = found
    ends = [
        Probe(f"{API_ENDPOINT}-{number}", address, port)
        for number, (address, port) in enumerate(endpoints[:MOST_ENDPOINTS], start=1)
    ]
    return (Probe(API_SERVICE, service[0], service[1]), *ends)


def judge(evidence: Evidence, expected: Runtime) -> Refusal | Unknown | None:
    """The verdict on one round: None when everything was proved, `Unknown` when another round has to tell."""
    return _judge_runtime(evidence, expected) or _judge_walls(evidence)


def _judge_runtime(evidence: Evidence, expected: Runtime) -> Refusal | None:
    if banner_fits(expected, evidence.runtime_version):
        return None
    banner = conditions.printable(evidence.runtime_version, 120) or "nothing"
    return refuse(
        RefusalCode.RUNTIME_CLASS_MISMATCH,
        f"The tier promises {expected}, and inside the pod /proc/version reads: {banner}",
    )


def _judge_walls(evidence: Evidence) -> Refusal | Unknown | None:
    """Every required outcome is there, and every one that is there is shut but for the mover's.

    Outcomes go by name: addresses may change between the order and the verdict.
    """
    missing = [name for name in _REQUIRED if not _outcomes(evidence, name)]
    if missing:
        return refuse(
            RefusalCode.EGRESS_PROBE_UNAVAILABLE,
            f"The evidence on the walls lacks an outcome for: {', '.join(missing)}",
        )
    if _CONNECTED not in _outcomes(evidence, CANARY) and _outcomes(evidence, MOVER) != {_CONNECTED}:
        # Nothing else of this round counts either: a keeper waits for its walls by means of the canary.
        return Unknown("the mover whose canary was dialled did not answer at its open port")
    for probe in evidence.probes:
        if probe.name != MOVER and probe.outcome not in (_WALLED if probe.name == CANARY else _UNREACHED):
            return _hole(conditions.printable(probe.name, 64), probe.outcome)
    return None


def _outcomes(evidence: Evidence, name: str) -> set[str]:
    return {probe.outcome for probe in evidence.probes if probe.name == name}


def _hole(name: str, outcome: str) -> Refusal:
    if outcome != _CONNECTED:
        return refuse(RefusalCode.EGRESS_PROBE_UNAVAILABLE, f"The probe {name} from inside the pod came to no verdict")
    if name == CANARY:
        return refuse(
            RefusalCode.EGRESS_CNI_NOT_ENFORCED,
            "From inside the pod the mover's canary port could be reached, which the NetworkPolicy does not allow",
        )
    return refuse(
        RefusalCode.EGRESS_NOT_DENY_DEFAULT, f"From inside the pod an address behind the wall could be reached: {name}"
    )
