"""A TokenReview's answer: only an authenticated token of ours that is bound to a pod names a pod."""

from typing import Any

import pytest

from sandhold.mover.identity import Identity, ProofError, judge_review

USER: dict[str, Any] = {
    "username": "system:serviceaccount:team:sandbox",
    "extra": {
        "authentication.kubernetes.io/pod-name": ["pod-1"],
        "authentication.kubernetes.io/pod-uid": ["uid-1"],
        "authentication.kubernetes.io/node-name": ["node"],
    },
}
STATUS: dict[str, Any] = {"authenticated": True, "audiences": ["sandhold-mover"], "user": USER}


def test_a_bound_token_names_its_pod() -> None:
    assert judge_review({"status": STATUS}) == Identity(pod_uid="uid-1", pod_name="pod-1", namespace="team")


@pytest.mark.parametrize(
    "status",
    [
        {},
        None,
        {**STATUS, "authenticated": False},
        {**STATUS, "authenticated": "true"},
        {**STATUS, "audiences": []},
        {**STATUS, "audiences": None},
        {**STATUS, "audiences": ["https://kubernetes.default.svc"]},
        {**STATUS, "user": {**USER, "extra": {}}},
        {**STATUS, "user": {**USER, "extra": {**USER["extra"], "authentication.kubernetes.io/pod-uid": ["a", "b"]}}},
        {**STATUS, "user": {**USER, "username": "admin"}},
        {**STATUS, "user": {**USER, "username": "system:serviceaccount:team"}},
    ],
)
def test_anything_else_names_none(status: Any) -> None:
    with pytest.raises(ProofError):
        judge_review({"status": status})
