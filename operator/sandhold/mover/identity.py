"""Who a keeper is: its token, judged by the API server (a TokenReview), never by what the pod says about itself.

Positive answers are believed for a moment, since a keeper that archives dials twice; negative ones are never kept. That
a token was good once is remembered longer, and proves nothing. The mover asks with its own token, read anew each time
because the kubelet replaces it.
"""

import asyncio
import hashlib
import ssl
import time
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from sandhold.errors import ForbiddenError, SandholdError, UnavailableError
from sandhold.names import TOKEN_AUDIENCE

_REMEMBERED_SECONDS = 30.0
_REMEMBERED = 20_000
_ASK_SECONDS = 5.0
_LARGEST_ANSWER = 256 * 1024
_ACCOUNT = "system:serviceaccount:"
_POD_NAME = "authentication.kubernetes.io/pod-name"
_POD_UID = "authentication.kubernetes.io/pod-uid"


class ProofError(SandholdError):
    """The token proves nothing: another audience, expired, its pod gone, or no token of a pod at all."""


@dataclass(frozen=True, slots=True)
class Identity:
    """A pod, as the API server knows it."""

    pod_uid: str
    pod_name: str
    namespace: str


class TokenReviewer:
    """Asks the API server about tokens."""

    def __init__(self, api: str, account: Path, *, at_once: int) -> None:
        self._url = f"{api.rstrip('/')}/apis/authentication.k8s.io/v1/tokenreviews"
        self._account = account
        self._turns = asyncio.Semaphore(at_once)
        self._known: OrderedDict[bytes, tuple[float, Identity]] = OrderedDict()
        self._client: httpx.AsyncClient | None = None
        self._client_stamp = 0

    def has_proved(self, token: str) -> bool:
        """Whether it was good once, which says that its holder is no agent that invents tokens."""
        return _key(token) in self._known

    async def identify(self, token: str) -> Identity:
        """The pod that this token is bound to; ProofError or UnavailableError otherwise."""
        key = _key(token)
        known = self._known.get(key)
        if known is not None and known[0] > time.monotonic():
            return known[1]
        async with self._turns:
            try:
                identity = judge_review(await self._ask(token))
            except ProofError:
                self._known.pop(key, None)
                raise
        self._known[key] = (time.monotonic() + _REMEMBERED_SECONDS, identity)
        self._known.move_to_end(key)
        while len(self._known) > _REMEMBERED:
            self._known.popitem(last=False)
        return identity

    async def close(self) -> None:
        """Close the connections to the API server."""
        if self._client is not None:
            await self._client.aclose()

    async def _ask(self, token: str) -> Any:
        review = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenReview",
            "spec": {"token": token, "audiences": [TOKEN_AUDIENCE]},
        }
        try:
            own = (self._account / "token").read_text().strip()
            client = self._current_client()
            answer = await client.post(self._url, json=review, headers={"Authorization": f"Bearer {own}"})
        except (httpx.HTTPError, OSError) as error:
            raise UnavailableError(
                f"the API server does not answer a TokenReview ({type(error).__name__}); "
                "check kubernetes_api and the mover's network policy"
            ) from error
        if answer.status_code in {401, 403}:
            raise ForbiddenError("the mover may not create TokenReviews; bind system:auth-delegator to its account")
        if answer.status_code not in {200, 201} or len(answer.content) > _LARGEST_ANSWER:
            raise UnavailableError(f"the API server answered a TokenReview with HTTP {answer.status_code}")
        try:
            return answer.json()
        except ValueError as error:
            raise UnavailableError("the API server answered a TokenReview with something that is not JSON") from error

    def _current_client(self) -> httpx.AsyncClient:
        """A client that trusts the cluster's CA as it is now."""
        authority = self._account / "ca.crt"
        stamp = authority.stat().st_mtime_ns if self._url.startswith("https:") else 1
        if self._client is None or stamp != self._client_stamp:
            # The one before is left to those who are using it.
            verify = ssl.create_default_context(cafile=str(authority)) if self._url.startswith("https:") else False
            self._client = httpx.AsyncClient(verify=verify, timeout=_ASK_SECONDS, trust_env=False)
            self._client_stamp = stamp
        return self._client


def _key(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()


def judge_review(review: Any) -> Identity:
    """The pod in an answered TokenReview. Pure."""
    status = review.get("status") if isinstance(review, dict) else None
    if not isinstance(status, dict) or status.get("authenticated") is not True:
        raise ProofError("the token is not valid: it has expired, or its pod is gone")
    if TOKEN_AUDIENCE not in (status.get("audiences") or ()):
        raise ProofError(f"the token is not for the audience {TOKEN_AUDIENCE}")
    user = status.get("user") or {}
    account, extra = str(user.get("username", "")), user.get("extra") or {}
    pod_names, pod_uids = list(extra.get(_POD_NAME) or []), list(extra.get(_POD_UID) or [])
    namespace, _, name = account.removeprefix(_ACCOUNT).partition(":")
    if not account.startswith(_ACCOUNT) or not namespace or not name or len(pod_names) != 1 or len(pod_uids) != 1:
        raise ProofError("the token is not bound to a pod")
    return Identity(pod_uid=str(pod_uids[0]), pod_name=str(pod_names[0]), namespace=namespace)
