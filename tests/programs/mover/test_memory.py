"""What an idle keeper costs a mover."""

from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from testkit.mover_process import MoverProcess, new_pod
from testkit.reports import wire_report
from testkit.token_review_server import TokenReviewServer

CONNECTIONS = 200
MOST_KIB = 60


def resident_kib(pid: int) -> int:
    [line] = [line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS:")]
    return int(line.split()[1])


async def connect(stack: AsyncExitStack, mover: MoverProcess, reviews: TokenReviewServer, count: int) -> None:
    for _ in range(count):
        pod = new_pod(reviews)
        keeper = await stack.enter_async_context(mover.keeper("control", pod.token))
        await keeper.say({"type": "report", "report": wire_report()})


async def test_an_idle_keeper_costs_at_most_60_kib(
    own_mover: MoverProcess, reviews: TokenReviewServer, capsys: pytest.CaptureFixture[str]
) -> None:
    own_mover.start()
    async with AsyncExitStack() as stack:
        await connect(stack, own_mover, reviews, 20)  # what is allocated once
        before = resident_kib(own_mover.pid)
        await connect(stack, own_mover, reviews, CONNECTIONS)
        async with own_mover.operator() as operator:
            while (await operator.hear())["type"] != "synced":
                pass
        each = (resident_kib(own_mover.pid) - before) / CONNECTIONS
    with capsys.disabled():
        print(f"\n{CONNECTIONS} idle keepers cost the mover {each:.1f} KiB each")  # noqa: T201
    assert each <= MOST_KIB
