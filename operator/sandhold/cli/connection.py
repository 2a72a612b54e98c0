"""From a kubeconfig to a configuration of the client, with the words for everything that can be wrong with it.

Inside a pod, and without a kubeconfig, the pod's own service account is used, as kubectl does.
"""

import asyncio
import logging
import os
from dataclasses import dataclass
from pathlib import Path

import yaml
from kubernetes_asyncio.client import Configuration
from kubernetes_asyncio.config import ConfigException, load_incluster_config
from kubernetes_asyncio.config.kube_config import load_kube_config

from sandhold.cli.failures import CliError, ExitCode

IN_CLUSTER = Path("/var/run/secrets/kubernetes.io/serviceaccount")
LOGIN_SECONDS = 120.0
_BROKEN = (ConfigException, OSError, AssertionError, LookupError, TypeError, ValueError, AttributeError, yaml.YAMLError)


@dataclass(slots=True)
class Connection:
    """Where requests go, and in which namespace by default."""

    configuration: Configuration
    namespace: str


async def connect(kubeconfig: str | None, context: str | None) -> Connection:
    """Read the kubeconfig; a plugin that signs in may take its time."""
    # Its messages would stand beside ours.
    logging.getLogger("kubernetes_asyncio").addHandler(logging.NullHandler())
    logging.getLogger("kubernetes_asyncio").propagate = False
    configuration = Configuration()
    # Python 3.13 refuses CAs that every other client of Kubernetes takes.
    configuration.disable_strict_ssl_verification = True
    named = kubeconfig or os.environ.get("KUBECONFIG") or "~/.kube/config"
    if not _is_there(named):
        return _in_cluster(configuration, named, is_asked_for=kubeconfig is not None or context is not None)
    try:
        async with asyncio.timeout(LOGIN_SECONDS):
            loader = await load_kube_config(
                config_file=named, context=context, client_configuration=configuration, persist_config=False
            )
        current = (loader.current_context or {}).get("context") or {}
    except TimeoutError as error:
        step = "sign in by hand first, or choose another user with --context"
        raise CliError(f"kubeconfig {named}: signing in took too long", step, ExitCode.FORBIDDEN) from error
    except _BROKEN as error:
        raise CliError(f"kubeconfig {named}: {_why(error, context)}", _STEP, ExitCode.USAGE) from error
    return Connection(configuration, str(current.get("namespace") or "default"))


_STEP = "see `kubectl config get-contexts`, and choose with --kubeconfig, KUBECONFIG or --context"


def _is_there(paths: str) -> bool:
    return any(Path(path).expanduser().exists() for path in paths.split(os.pathsep) if path)


def _in_cluster(configuration: Configuration, named: str, *, is_asked_for: bool) -> Connection:
    if is_asked_for or not (IN_CLUSTER / "token").exists():
        raise CliError(f"kubeconfig {named}: there is no such file", _STEP, ExitCode.USAGE)
    try:
        load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]
        namespace = (IN_CLUSTER / "namespace").read_text().strip()
    except _BROKEN as error:
        what = f"the pod's service account: {error}"
        raise CliError(what, "check automountServiceAccountToken of the pod", ExitCode.USAGE) from error
    return Connection(configuration, namespace)


def _why(error: BaseException, context: str | None) -> str:
    """The library checks with assertions here and there, which say nothing."""
    if isinstance(error, TypeError | AttributeError | AssertionError):
        return "it is no kubeconfig, or a context, cluster or user that it names is not in it"
    text = " ".join(str(error).split())[:300]
    if context is not None and context in text:
        return f"there is no context {context}"
    if "current-context" in text:
        return "it names no current context"
    return text or type(error).__name__
