"""The command line of `hack/cluster`: one function a verb, each under the lock that keeps two runs apart."""

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from testbed import (
    bringing_up,
    choice,
    components,
    containers,
    daemons,
    kind_cluster,
    locks,
    network,
    packages,
    places,
    processes,
    taking_down,
)
from testbed.failure import TestbedError

# An `up` that builds everything on a busy machine.
LONGEST_RUN_SECONDS = 60 * 60


def main(arguments: Sequence[str]) -> int:
    """Run one verb; 0 is well, 1 is a sentence on standard error (or, for `status`, something that does not run)."""
    options = _parser().parse_args(arguments)
    verb: Callable[[argparse.Namespace], int] = options.verb
    try:
        cluster = choice.chosen()
        if cluster.provider is choice.Provider.KIND:
            return _on_kind(options, cluster)
        return verb(options)
    except TestbedError as error:
        print(f"hack/cluster: {error}", file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="hack/cluster", description="The test cluster of this project.")
    verbs = parser.add_subparsers(required=True, metavar="VERB")
    for name, verb, text in (
        ("build", _build, "build the cluster's parts into the cache, without starting anything"),
        ("up", _up, "bring the cluster up, or heal it; quick when it is well"),
        ("down", _down, "end the cluster and remove all that it put on this machine"),
        ("status", _status, "say what runs and what does not"),
        ("kubeconfig", _kubeconfig, "print the path of the administrator's kubeconfig"),
        ("env", _env, "print shell exports for kubectl, helm, the kubeconfig and S3"),
    ):
        verbs.add_parser(name, help=text, description=text).set_defaults(verb=verb)
    for name, daemon_verb, text in (
        ("start", _start, "start one daemon and wait until it serves"),
        ("stop", _stop, "stop one daemon; `up` would start it again"),
        ("restart", _restart, "stop and start one daemon"),
    ):
        one = verbs.add_parser(name, help=text, description=text)
        one.set_defaults(verb=daemon_verb)
        one.add_argument("daemon")
    load = verbs.add_parser("load", help="import an image archive (OCI or docker) for the cluster to use")
    load.set_defaults(verb=_load)
    load.add_argument("archive", type=Path, nargs="+")
    inside = verbs.add_parser("exec-net", help="run a command in the cluster's network: exec-net -- COMMAND")
    inside.set_defaults(verb=_exec_net)
    inside.add_argument("command", nargs="+")
    return parser


def _on_kind(options: argparse.Namespace, cluster: choice.Choice) -> int:
    """The verbs that a cluster of kind has; kubeconfig and env are the same for both."""
    kind = kind_cluster.KindCluster(cluster.engine)
    if options.verb in (_kubeconfig, _env):
        answer: int = options.verb(options)
        return answer
    if options.verb is _status:
        is_up = kind.is_up()
        print(f"kind ({cluster.engine}), UNVERIFIED: {'serves' if is_up else 'does NOT serve'}")
        return 0 if is_up else 1
    actions: dict[object, Callable[[], object]] = {
        _build: kind.build,
        _up: kind.up,
        _down: kind.down,
        _load: lambda: kind.load(options.archive),
    }
    if options.verb not in actions:
        raise TestbedError("a cluster of kind has no daemons and no network of its own to be used so")
    with _alone():
        actions[options.verb]()
    return 0


def _alone() -> AbstractContextManager[None]:
    """Keep other runs away from this machine's one cluster."""
    packages.require_root()
    return locks.held(places.LOCK_FILE, "another hack/cluster", seconds=LONGEST_RUN_SECONDS)


def _bin_dirs() -> dict[str, Path]:
    """The directories of the finished builds, or a word on how to get there."""
    found = {c.name: c.directory(places.cache()) for c in components.COMPONENTS}
    if not all(path.is_dir() for path in found.values()):
        raise TestbedError("the cluster's parts are not built: run `hack/cluster up`")
    return found


def _daemon(options: argparse.Namespace) -> daemons.Daemon:
    if not network.exists():
        raise TestbedError("the cluster is not up: run `hack/cluster up`")
    table = daemons.table(_bin_dirs())
    if options.daemon not in table:
        raise TestbedError(f"there is no daemon {options.daemon}; there are {', '.join(table)}")
    return table[options.daemon]


def _build(_: argparse.Namespace) -> int:
    bringing_up.build_parts()
    return 0


def _up(_: argparse.Namespace) -> int:
    with _alone():
        bringing_up.up()
    return 0


def _down(_: argparse.Namespace) -> int:
    with _alone():
        built = all(c.directory(places.cache()).is_dir() for c in components.COMPONENTS)
        taking_down.down(_bin_dirs() if built else None)
    return 0


def _status(_: argparse.Namespace) -> int:
    if not network.exists():
        print("the cluster is not up")
        return 1
    well = True
    for name, daemon in daemons.table(_bin_dirs()).items():
        record = processes.running(name)
        serves = record is not None and daemon.serves()
        well = well and serves
        process = f"pid {record.pid}" if record else "not running"
        print(f"{name:24} {process:12} {'serves' if serves else 'does NOT serve'}")
    return 0 if well else 1


def _kubeconfig(_: argparse.Namespace) -> int:
    if not places.kubeconfig().exists():
        raise TestbedError("the cluster is not up: run `hack/cluster up`")
    print(places.kubeconfig())
    return 0


def _env(_: argparse.Namespace) -> int:
    for name, value in {
        "KUBECONFIG": str(places.kubeconfig()),
        "PATH": f"{places.cache() / 'bin'}:$PATH",
        "SANDHOLD_S3_ENDPOINT": places.S3_URL,
        "SANDHOLD_S3_BUCKET": places.S3_BUCKET,
        "AWS_ACCESS_KEY_ID": places.S3_ACCESS_KEY,
        "AWS_SECRET_ACCESS_KEY": places.S3_SECRET_KEY,
        "AWS_REGION": places.S3_REGION,
    }.items():
        print(f'export {name}="{value}"')
    return 0


def _start(options: argparse.Namespace) -> int:
    with _alone():
        daemon = _daemon(options)
        bringing_up.ensure(daemon)
        bringing_up.await_serving(daemon)
    return 0


def _stop(options: argparse.Namespace) -> int:
    with _alone():
        processes.stop(_daemon(options).name)
    return 0


def _restart(options: argparse.Namespace) -> int:
    with _alone():
        daemon = _daemon(options)
        processes.stop(daemon.name)
        bringing_up.ensure(daemon)
        bringing_up.await_serving(daemon)
    return 0


def _load(options: argparse.Namespace) -> int:
    if not processes.running("containerd"):
        raise TestbedError("the cluster is not up: run `hack/cluster up`")
    for archive in options.archive:
        print("\n".join(containers.load(_bin_dirs(), archive)))
    return 0


def _exec_net(options: argparse.Namespace) -> int:
    if not network.exists():
        raise TestbedError("the cluster is not up: run `hack/cluster up`")
    argv = network.inside(*options.command)
    os.execvp(argv[0], argv)  # noqa: S606
