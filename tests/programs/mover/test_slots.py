"""Heads and fences: the highest generation counts, and what it was fenced over is what a start gets."""

from typing import Any

from testkit.mover_process import MoverProcess, Pod
from testkit.s3_server import S3Server
from testkit.wire_keeper import Peer


async def fence(operator: Peer, pod: Pod, epoch: int, parent: tuple[int, int] | None) -> dict[str, Any]:
    source = None if parent is None else {"epoch": parent[0], "sequence": parent[1]}
    return await operator.ask("fence", store="main", slot=pod.slot, epoch=epoch, parent=source, podUid=pod.uid)


async def head(operator: Peer, pod: Pod) -> dict[str, Any]:
    return await operator.ask("head", store="main", slot=pod.slot)


async def archive(mover: MoverProcess, pod: Pod, epoch: int, sequence: int) -> None:
    answer = await mover.archive(pod, f"{epoch}-{sequence}".encode(), epoch=epoch, sequence=sequence)
    assert answer["type"] == "stored"


def position(manifest: dict[str, Any] | None) -> tuple[int, int] | None:
    return None if manifest is None else (manifest["epoch"], manifest["sequence"])


async def test_a_fence_over_nothing_has_no_content(mover: MoverProcess, pod: Pod) -> None:
    async with mover.operator() as operator:
        answer = await fence(operator, pod, 1, None)
        assert position(answer["result"]["head"]) == (1, 0)
        assert answer["result"]["head"]["kind"] == "Fence"
        assert (await head(operator, pod))["result"] == {"head": answer["result"]["head"], "content": None}


async def test_a_fence_hides_what_is_stored_below_it_later(mover: MoverProcess, pod: Pod) -> None:
    async with mover.operator() as operator:
        await archive(mover, pod, 1, 1)
        assert (await fence(operator, pod, 2, (1, 1)))["ok"] is True
        await archive(mover, pod, 1, 2)  # the stale holder's: stored, and never the head
        answer = (await head(operator, pod))["result"]
        assert (position(answer["head"]), position(answer["content"])) == ((2, 0), (1, 1))
        await archive(mover, pod, 2, 1)
        answer = (await head(operator, pod))["result"]
        assert (position(answer["head"]), position(answer["content"])) == ((2, 1), (2, 1))


async def test_a_fence_again_is_success_and_with_another_parent_is_stale(mover: MoverProcess, pod: Pod) -> None:
    async with mover.operator() as operator:
        await archive(mover, pod, 1, 1)
        first = await fence(operator, pod, 2, (1, 1))
        assert (await fence(operator, pod, 2, (1, 1)))["result"] == first["result"]
        refused = await fence(operator, pod, 2, None)
        assert (refused["ok"], refused["error"]["code"]) == (False, "stale_generation")


async def test_a_fence_never_hides_what_was_stored_since_the_restore(mover: MoverProcess, pod: Pod) -> None:
    """A pod that was given up stores its archive late, when its successor has restored the one before."""
    async with mover.operator() as operator:
        await archive(mover, pod, 1, 1)
        await fence(operator, pod, 2, (1, 1))
        await archive(mover, pod, 2, 1)
        for parent in ((1, 1), None):
            refused = await fence(operator, pod, 3, parent)
            assert (refused["ok"], refused["error"]["code"]) == (False, "stale_generation")
        answer = (await head(operator, pod))["result"]
        assert (position(answer["head"]), position(answer["content"])) == ((2, 1), (2, 1))
        assert (await fence(operator, pod, 3, (2, 1)))["ok"] is True


async def test_a_fence_below_the_head_is_stale_and_not_written(mover: MoverProcess, s3: S3Server, pod: Pod) -> None:
    async with mover.operator() as operator:
        await fence(operator, pod, 5, None)
        refused = await fence(operator, pod, 4, None)
        assert (refused["error"]["code"], refused["error"]["retryable"]) == ("stale_generation", False)
    assert [key[-21:] for key in s3.list_keys(f"sandboxes/test-installation/{pod.slot}/")] == ["0000000005-0000000000"]


async def test_a_fence_whose_content_is_gone_says_so(mover: MoverProcess, s3: S3Server, pod: Pod) -> None:
    async with mover.operator() as operator:
        await archive(mover, pod, 1, 1)
        await fence(operator, pod, 2, (1, 1))
        s3.delete(f"sandboxes/test-installation/{pod.slot}/0000000001-0000000001")
        assert (await head(operator, pod))["error"]["code"] == "manifest_missing"


async def test_other_objects_in_a_slots_folder_are_no_manifests(mover: MoverProcess, s3: S3Server, pod: Pod) -> None:
    folder = f"sandboxes/test-installation/{pod.slot}"
    for name in ("readme.txt", "99999999990-0000000000", "layers/9999999999-9999999999", "0000000009-1"):
        s3.put(f"{folder}/{name}", b"x")
    async with mover.operator() as operator:
        await archive(mover, pod, 1, 1)
        assert position((await head(operator, pod))["result"]["head"]) == (1, 1)


async def test_heads_are_found_beyond_one_page_of_a_listing(mover: MoverProcess, s3: S3Server, pod: Pod) -> None:
    folder = f"sandboxes/test-installation/{pod.slot}"
    for number in range(1010):
        s3.put_file(f"{folder}/0000000001-{number:010d}", b"old")
    async with mover.operator() as operator:
        await archive(mover, pod, 2, 1)
        assert position((await head(operator, pod))["result"]["head"]) == (2, 1)
