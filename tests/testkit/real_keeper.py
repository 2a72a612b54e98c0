"""The real keeper at home with a real mover, and an operator that gives it orders: the in-pod half of a session."""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from testkit.keeper_pod import KeeperPod
from testkit.mover_process import MoverProcess, Pod
from testkit.wire_keeper import Peer

CHALLENGE = "a" * 32


class KeeperOrders:
    """An operator that gives one pod orders, one after the other."""

    def __init__(self, peer: Peer, mover: MoverProcess, pod: Pod) -> None:
        self._peer = peer
        self._mover = mover
        self._pod = pod

    async def until(self, holds: Callable[[dict[str, Any]], Any]) -> dict[str, Any]:
        """The pod's report, once it is as it should be."""
        while True:
            message = await self._peer.hear()
            if message.get("podUid") == self._pod.uid and message["report"] and holds(message["report"]):
                report: dict[str, Any] = message["report"]
                return report

    async def order(self, **order: Any) -> None:
        """Give an order; whether it was obeyed is for the next report to say."""
        await self._peer.say({"type": "request", "id": 1, "verb": "order", "podUid": self._pod.uid, "order": order})

    async def prepare(self, epoch: int, source: tuple[int, int] | None = None) -> dict[str, Any]:
        """Have the workspace prepared; the report that says how that went."""
        await self.order_prepare(epoch, source)
        return await self.until(lambda report: report["workspace"]["state"] in {"Ready", "Failed"})

    async def order_prepare(self, epoch: int, source: tuple[int, int] | None = None) -> None:
        """Have the workspace prepared, without waiting."""
        where = None if source is None else {"epoch": source[0], "sequence": source[1]}
        grant = "" if where is None else self._grant("restore", epoch=epoch, source=where)
        order = {"verb": "prepare", "slot": self._pod.slot, "entriesDigest": "", "writeEntries": False, "probes": []}
        await self.order(**order, epoch=epoch, source=where, grant=grant)

    async def open_gate(self, folders: KeeperPod) -> None:
        """Play an init that waits, and give the word."""
        (folders.hints / "init.json").write_text(json.dumps({"challenge": CHALLENGE, "state": "Waiting"}))
        await self.until(lambda report: report["gate"]["challenge"] == CHALLENGE)
        await self.order(verb="open", challenge=CHALLENGE, word={"argv": [], "env": {}, "workingDir": "/"})
        await self.until(lambda report: report["gate"]["opened"] == CHALLENGE)

    async def order_archive(self, epoch: int, sequence: int, *, final: bool = True, **fields: Any) -> None:
        """Have the workspace archived, without waiting."""
        grant = self._grant("archive", epoch=epoch, sequence=sequence, final=final, **fields)
        await self.order(verb="archive", sequence=sequence, final=final, grant=grant)

    async def archive_ended(self) -> dict[str, Any]:
        """What the keeper says of the archive, once it is over."""
        report = await self.until(lambda report: (report["archive"] or {}).get("state") in {"Stored", "Failed"})
        archive: dict[str, Any] = report["archive"]
        return archive

    async def archive(self, epoch: int, sequence: int, *, final: bool = True) -> dict[str, Any]:
        """Have the workspace archived; how that went."""
        await self.order_archive(epoch, sequence, final=final)
        await self.until(lambda report: (report["archive"] or {}).get("state") == "Running")
        return await self.archive_ended()

    def _grant(self, verb: str, **fields: Any) -> str:
        return self._mover.installation.grant(verb, self._pod.uid, self._pod.slot, **fields)


@asynccontextmanager
async def orders_through(mover: MoverProcess, pod: Pod) -> AsyncIterator[KeeperOrders]:
    """An operator that is connected to this mover."""
    async with mover.operator() as peer:
        yield KeeperOrders(peer, mover, pod)


@asynccontextmanager
async def keeper_at_home(mover: MoverProcess, pod: Pod, port: int | None = None) -> AsyncIterator[Any]:
    """A keeper in a pod that calls this mover (by another port, where one stands before it), and its operator."""
    with KeeperPod() as folders:
        folders.token.write_text(pod.token)
        (folders.podinfo / "mover-address").write_text(f"127.0.0.1:{port or mover.keeper_port}")
        (folders.podinfo / "mover-ca").write_bytes(mover.installation.authority.certificate_pem)
        async with orders_through(mover, pod) as operator:
            folders.start_keeper()
            await operator.until(lambda report: report["workspace"]["state"] == "Empty")
            yield folders, operator
