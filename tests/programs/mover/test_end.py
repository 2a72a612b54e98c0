"""The end of a mover: what runs may finish, what is asked anew finds nobody, and the exit code says how it was."""

import time

from testkit.mover_process import MoverProcess, Pod, eventually
from testkit.s3_server import S3Server
from testkit.wire_keeper import done, file_record, lines

RECORDS = [file_record("f", b"x")]


async def test_sigterm_lets_a_running_transfer_finish_and_hangs_up_on_everybody_else(
    own_mover: MoverProcess, own_s3: S3Server, pod: Pod
) -> None:
    own_mover.use(own_s3)
    own_mover.start()
    grant = own_mover.installation.grant("archive", pod.uid, pod.slot)
    async with (
        own_mover.keeper("control", pod.token) as control,
        own_mover.keeper("archive", pod.token, grant) as peer,
    ):
        await peer.send_part([b"layer"])
        own_mover.terminate()
        assert await control.is_hung_up_on()
        await eventually(lambda: own_mover.probe("/readyz") == 503)
        assert own_mover.probe("/livez") == 200
        await peer.send_part([lines(RECORDS)])
        await peer.say(done(b"layer", RECORDS))
        assert (await peer.hear())["type"] == "stored"
    assert own_mover.wait() == 0
    assert [key for key in own_s3.list_keys() if "layers" not in key]


async def test_an_idle_mover_ends_at_once(own_mover: MoverProcess, pod: Pod) -> None:
    own_mover.start()
    async with own_mover.keeper("control", pod.token), own_mover.operator():
        started = time.monotonic()
        own_mover.terminate()
        assert own_mover.wait() == 0
        assert time.monotonic() - started < 10


def test_a_mover_without_its_files_says_which_and_ends(own_mover: MoverProcess) -> None:
    own_mover.remove_file("tls/grant.pub")
    own_mover.start_and_fail()
    assert own_mover.wait() == 2
    assert "must hold usable tls.crt, tls.key, ca.crt, grant.pub (No such file or directory)" in own_mover.log()
    assert "Traceback" not in own_mover.log()
