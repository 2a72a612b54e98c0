"""The commands of `sandhold`: their names, arguments and help. What each does stands in a module that it loads itself.

Loading late keeps `--help` quick: nothing here may import a client, a model or an event loop's library.
"""

from importlib.metadata import version
from typing import Annotated

import typer

from sandhold.cli.call import Call
from sandhold.cli.commands import command, options_in_front

_EPILOG = "Exit codes, and what -o json says: docs/reference/cli.md."
app = typer.Typer(
    epilog=_EPILOG,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
session_app = typer.Typer(help="List, show, suspend, resume and remove sessions.", no_args_is_help=True)
snapshot_app = typer.Typer(help="The archives of workspaces.", no_args_is_help=True)
app.add_typer(session_app, name="session")
app.add_typer(snapshot_app, name="snapshot")

SessionName = Annotated[str, typer.Argument(metavar="SESSION", help="Name of the SandboxSession.")]
Target = Annotated[str, typer.Argument(metavar="KIND/NAME", help="session/NAME or sandbox/NAME.")]
AllNamespaces = Annotated[bool, typer.Option("--all-namespaces", "-A", help="In all namespaces.")]
OperatorNamespace = Annotated[
    str | None,
    typer.Option(
        "--operator-namespace", metavar="NAME", help="Where the operator runs; else sandhold-system, else looked for."
    ),
]


def _print_version(wanted: bool) -> None:  # noqa: FBT001 - typer calls it
    if wanted:
        typer.echo(f"sandhold {version('sandhold')}")
        raise typer.Exit


@options_in_front(app)
def root(
    *,
    _version: Annotated[
        bool, typer.Option("--version", help="Print the version and end.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Sandboxes of AI agents: sessions, their workspaces and archives, and what the operator does about them."""


@command(session_app, "ls")
async def session_ls(call: Call, *, all_namespaces: AllNamespaces = False) -> None:
    """List sessions."""
    from sandhold.cli import sessions

    await sessions.ls(call, all_namespaces=all_namespaces)


@command(session_app, "get")
async def session_get(call: Call, *, name: SessionName) -> None:
    """Show one session with its conditions."""
    from sandhold.cli import sessions

    await sessions.get(call, name=name)


@command(session_app, "suspend")
async def session_suspend(
    call: Call,
    *,
    name: SessionName,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait until its workspace is stored and its pod is gone.")
    ] = False,
) -> None:
    """Stop a session: its workspace is archived and verified, then its pod goes."""
    from sandhold.cli import sessions

    await sessions.suspend(call, name=name, wait=wait)


@command(session_app, "resume")
async def session_resume(
    call: Call,
    *,
    name: SessionName,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until it is Ready.")] = False,
) -> None:
    """Start a stopped session again from its archive, whatever stopped it."""
    from sandhold.cli import sessions

    await sessions.resume(call, name=name, wait=wait)


@command(session_app, "rm")
async def session_rm(
    call: Call,
    *,
    name: SessionName,
    wait: Annotated[bool, typer.Option("--wait", help="Wait until it is gone.")] = False,
    discard: Annotated[
        bool, typer.Option("--discard", help="Give up its workspace: archive nothing. Asks for a confirmation.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="The confirmation of --discard.")] = False,
) -> None:
    """Delete a session. Its workspace is archived first; archives stay."""
    from sandhold.cli import sessions

    await sessions.rm(call, name=name, discard=discard, is_sure=yes, wait=wait)


@command(app, "exec", has_output=False)
async def exec_(
    call: Call,
    *,
    name: SessionName,
    words: Annotated[list[str], typer.Argument(metavar="-- COMMAND...", help="The command and its arguments.")],
    stdin: Annotated[bool, typer.Option("--stdin", "-i", help="Pass standard input on.")] = False,
    tty: Annotated[bool, typer.Option("--tty", "-t", help="Give the command a terminal; needs -i.")] = False,
) -> int:
    """Run a command in the agent's container of a session that is Ready; exits with its exit code."""
    from sandhold.cli import executing

    return await executing.run(call, name=name, command=tuple(words), has_input=stdin, wants_terminal=tty)


@command(app, "logs", has_output=False)
async def logs(  # noqa: PLR0913 - one a flag
    call: Call,
    *,
    name: SessionName,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what is written from now on.")] = False,
    previous: Annotated[
        bool, typer.Option("--previous", "-p", help="Of the container before the last restart.")
    ] = False,
    keeper: Annotated[bool, typer.Option("--keeper", help="Of the keeper instead of the agent.")] = False,
    tail: Annotated[int | None, typer.Option("--tail", metavar="LINES", min=0, help="The last lines alone.")] = None,
) -> None:
    """Print the logs of a session's agent."""
    from sandhold.cli import logs as printing_logs

    await printing_logs.show(call, name=name, follow=follow, previous=previous, of_keeper=keeper, tail=tail)


@command(snapshot_app, "ls")
async def snapshot_ls(
    call: Call,
    *,
    all_namespaces: AllNamespaces = False,
    session: Annotated[str | None, typer.Option("--session", metavar="NAME", help="Of one session alone.")] = None,
) -> None:
    """List the archives that the index knows."""
    from sandhold.cli import snapshots

    await snapshots.ls(call, all_namespaces=all_namespaces, session=session)


@command(app, "plan")
async def plan(call: Call, *, target: Target, operator_namespace: OperatorNamespace = None) -> None:
    """Say what the operator would do now, without doing it. -o wide adds the plan itself.

    Asks the operator in its own pod: needs pods/exec in its namespace.
    """
    from sandhold.cli import planning

    await planning.plan(call, target=target, operator_namespace=operator_namespace)


@command(app, "explain")
async def explain(call: Call, *, target: Target, operator_namespace: OperatorNamespace = None) -> None:
    """Say where a session or sandbox is, what it waits for, and what to do about it.

    With pods/exec in the operator's namespace its next steps are told, too; without, status alone speaks.
    """
    from sandhold.cli import planning

    await planning.explain(call, target=target, operator_namespace=operator_namespace)


@command(app, "sweep")
async def sweep(
    call: Call,
    *,
    dry_run: Annotated[
        bool, typer.Option(help="Delete nothing. There is nothing else here: the operator sweeps.")
    ] = True,
    everything: Annotated[
        bool, typer.Option("--all", help="Every object that was looked at, not orphans alone.")
    ] = False,
    installation: Annotated[
        str | None, typer.Option("--installation-id", metavar="ID", help="Whose objects; else the operator is asked.")
    ] = None,
    operator_namespace: OperatorNamespace = None,
) -> None:
    """Say which objects of Sandhold nobody owns any more, and why. Nothing is deleted."""
    from sandhold.cli import sweeping

    await sweeping.sweep(
        call,
        dry_run=dry_run,
        everything=everything,
        installation=installation,
        operator_namespace=operator_namespace,
    )
