"""Control connections: reports go up, orders come down, a newer connection replaces an older one."""

from typing import Any

import pytest

from testkit.mover_process import MoverProcess, Pod
from testkit.reports import wire_report
from testkit.wire_keeper import Peer


async def news_of(operator: Peer, pod: Pod, **expected: Any) -> dict[str, Any]:
    """The next push about this pod that holds these values."""
    while True:
        message = await operator.hear()
        if message["type"] == "keeper" and message["podUid"] == pod.uid and expected.items() <= message.items():
            return message


async def test_an_operator_is_told_of_everybody_and_then_that_it_was_everybody(mover: MoverProcess, pod: Pod) -> None:
    async with mover.keeper("control", pod.token) as keeper:
        await keeper.say({"type": "report", "report": wire_report()})
        async with mover.operator() as first:
            await news_of(first, pod, connected=True, report=wire_normalised())
            async with mover.operator() as second:
                told = []
                while (message := await second.hear())["type"] != "synced":
                    told.append(message)
    [push] = [message for message in told if message["podUid"] == pod.uid]
    assert (push["namespace"], push["connected"], push["report"]) == ("team", True, wire_normalised())
    assert push["podName"].startswith("pod-")


def wire_normalised() -> dict[str, Any]:
    """The report as the mover passes it on: with every known field."""
    report = wire_report()
    report["archive"] = {**report["archive"], "final": False, "files": 0, "bytes": 0}
    report["workspace"] = {**report["workspace"], "waitingFor": None}
    return {**report, "kept": None, "guard": None}


async def test_a_keeper_that_leaves_is_told_as_gone(mover: MoverProcess, pod: Pod) -> None:
    async with mover.operator() as operator:
        async with mover.keeper("control", pod.token):
            await news_of(operator, pod, connected=True)
        await news_of(operator, pod, connected=False)
        answer = await operator.ask("order", podUid=pod.uid, order={"verb": "end"})
    assert answer["error"]["code"] == "keeper_absent"


async def test_a_second_control_connection_replaces_the_first(mover: MoverProcess, pod: Pod) -> None:
    async with mover.operator() as operator, mover.keeper("control", pod.token) as first:
        await first.say({"type": "report", "report": wire_report(boot="first")})
        await news_of(operator, pod, connected=True)
        async with mover.keeper("control", pod.token) as second:
            assert await first.is_hung_up_on()
            await second.say({"type": "report", "report": wire_report(boot="second")})
            while (await news_of(operator, pod, connected=True))["report"] is None:
                pass
            assert (await operator.ask("order", podUid=pod.uid, order={"verb": "end"}))["ok"] is True
            assert await second.hear() == {"type": "order", "order": {"verb": "end"}}
            # The end of the first one is not told as the end of the keeper: an order still arrives.
            assert (await operator.ask("order", podUid=pod.uid, order={"verb": "open"}))["ok"] is True
            assert await second.hear() == {"type": "order", "order": {"verb": "open"}}


async def test_of_many_reports_an_operator_gets_the_newest(mover: MoverProcess, pod: Pod) -> None:
    async with mover.operator() as operator, mover.keeper("control", pod.token) as keeper:
        for number in range(30):
            await keeper.say({"type": "report", "report": wire_report(boot=f"b{number}")})
        while True:
            push = await news_of(operator, pod)
            if push["report"] and push["report"]["boot"] == "b29":
                break


@pytest.mark.parametrize(
    "message",
    [
        {"type": "report"},
        {"type": "report", "report": {}},
        {"type": "report", "report": wire_report(boot="x" * 200)},
        {"type": "report", "report": wire_report(workspace={"state": "Fine"})},
        {"type": "report", "report": wire_report(agent={"state": "Running", "exitCode": "0"})},
        {"type": "order", "order": {}},
        {"type": "request", "id": 1, "verb": "head"},
        {},
    ],
)
async def test_what_a_keeper_does_not_say_ends_its_connection(
    mover: MoverProcess, pod: Pod, message: dict[str, Any]
) -> None:
    async with mover.keeper("control", pod.token) as keeper:
        await keeper.say(message)
        assert await keeper.is_hung_up_on()


async def test_an_operators_mistakes_are_answered_and_cost_nobody_else_anything(mover: MoverProcess) -> None:
    async with mover.operator() as operator:
        for request in (
            {"verb": "delete"},
            {"verb": "head", "store": "main"},
            {"verb": "head", "store": "main", "slot": "../up"},
            {"verb": "order", "podUid": "x", "order": []},
            {"verb": "fence", "store": "main", "slot": "s", "epoch": 0, "parent": None, "podUid": "x"},
        ):
            answer = await operator.ask(**request)
            assert (answer["ok"], answer["error"]["code"]) == (False, "request_refused"), request
        assert (await operator.ask("head", store="main", slot="none"))["ok"] is True
