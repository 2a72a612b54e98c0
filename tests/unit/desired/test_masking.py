"""What a person may see of a plan: nothing that an environment, an entry, an argument or a grant holds."""

import base64
import hashlib
import json
from collections.abc import Iterator
from typing import Any

import yaml

from sandhold import names
from sandhold.desired import orders
from sandhold.desired.masking import masked
from sandhold.desired.plan import Plan, to_parts
from testkit import worlds
from testkit.golden import cases

SECRET = "s3cr3t"


def digest(text: str) -> str:
    return hashlib.sha256(b"key" + text.encode()).hexdigest()[:12]


def test_every_place_where_a_secret_can_be() -> None:
    sandbox = worlds.a_sandbox(
        {
            "image": "example.invalid/agent:1",
            "command": ["run", f"--token={SECRET}"],
            "args": [SECRET],
            "env": [{"name": "TOKEN", "value": SECRET}],
            "workspace": {"entries": [{"path": "key", "file": {"content": SECRET}}]},
        }
    )
    document = orders.entries_document(sandbox.spec.workspace.entries)
    preparation = orders.Preparation("slot", 1, None, document, writes_entries=True, probes=())
    parts = to_parts(
        Plan(
            calls=(
                *orders.entries_orders("uid", document),
                orders.prepare_order("uid", preparation, {"grant": SECRET}),
                orders.open_order("uid", "c", sandbox, worlds.a_session()),
            )
        )
    )
    shown = json.dumps(masked(parts, digest))
    for secret in (SECRET, base64.b64encode(document).decode(), hashlib.sha256(document).hexdigest()):
        assert secret in json.dumps(parts), "the plan has it"
        assert secret not in shown, "and whoever looks does not; a digest without a key can be looked up"
    assert '"TOKEN": "masked:' in shown
    assert '"argv": ["run", "masked:' in shown
    assert '"grant": "masked:' in shown


def test_the_digest_of_a_pod_by_which_its_secrets_could_be_tried_out_is_not_shown() -> None:
    made = masked({"create": worlds.a_pod()}, digest)
    assert made["create"]["metadata"]["annotations"][names.ANNOTATION_INTENT].startswith("masked:")


def test_equal_values_look_alike_and_others_do_not() -> None:
    plan = {"env": [{"name": "A", "value": "x"}, {"name": "B", "value": "x"}, {"name": "C", "value": "y"}]}
    first, second, third = (one["value"] for one in masked(plan, digest)["env"])
    assert first == second != third


def test_no_plan_of_the_golden_cases_shows_a_value_of_an_environment() -> None:
    seen = 0
    for case in cases():
        plan = yaml.safe_load((case / "plan.yaml").read_text())
        for values in _environments(masked(plan, digest)):
            seen += len(values)
            assert all(value.startswith("masked:") for value in values), case.name
    assert seen > 10


def _environments(document: Any) -> Iterator[list[str]]:
    if isinstance(document, dict):
        for key, value in document.items():
            if key == "env" and isinstance(value, dict):
                yield list(value.values())
            elif key == "env":
                yield [one["value"] for one in value if "value" in one]
            else:
                yield from _environments(value)
    elif isinstance(document, list):
        for part in document:
            yield from _environments(part)


def test_everything_else_stays_as_it_is() -> None:
    plan = {
        "writes": [{"delete": {"kind": "Pod", "uid": "u", "cause": "its archive is stored"}}],
        "calls": [{"order": {"verb": "end", "arguments": {"graceSeconds": 10}}}],
        "status": {"phase": "Stopping", "conditions": [{"type": "Ready", "message": "The session was deleted."}]},
        "wakeAfter": 2.5,
    }
    assert masked(plan, digest) == plan
