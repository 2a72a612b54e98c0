"""`sandhold logs`: what the agent's container wrote, or the keeper's, as the kubelet kept it."""

import aiohttp

from sandhold import names
from sandhold.cli.call import Call
from sandhold.cli.failures import Asked, CliError, ExitCode, unreachable
from sandhold.cli.opening import USUAL_SECONDS, opened
from sandhold.cli.reading import session_shape
from sandhold.cli.terminal import write_output
from sandhold.cli.waiting import SESSION


async def show(  # noqa: PLR0913 - one a flag
    call: Call, *, name: str, follow: bool, previous: bool, of_keeper: bool, tail: int | None
) -> None:
    """Write them to standard output as they are; what an agent writes is bytes."""
    async with opened(call, None if follow else USUAL_SECONDS) as api:
        shape = session_shape(await api.get(SESSION, api.namespace, name))
        if shape.pod is None:
            place = f"SandboxSession {api.namespace}/{name}"
            why = f"{shape.phase or 'not looked at yet'}: {shape.message or 'there is no word of the operator yet'}"
            step = f"sandhold explain session/{name} -n {api.namespace}"
            raise CliError(f"{place}: there is no pod whose logs could be read ({why})", step, ExitCode.NOT_READY)
        query = {"container": names.KEEPER_CONTAINER if of_keeper else names.AGENT_CONTAINER}
        query |= {"follow": "true"} if follow else {}
        query |= {"previous": "true"} if previous else {}
        query |= {"tailLines": str(tail)} if tail is not None else {}
        asked = Asked("get", "pods/log", "Pod", api.namespace, shape.pod.name)
        path = f"/api/v1/namespaces/{api.namespace}/pods/{shape.pod.name}/log"
        async with api.stream(asked, path, query) as content:
            try:
                async for part in content.iter_any():
                    await write_output(part)
            except aiohttp.ClientError as error:
                raise unreachable(api.host, error) from error
