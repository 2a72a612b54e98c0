"""Every golden case: the plan that is written beside a world is the plan that follows from it today."""

from pathlib import Path

import pytest

from testkit.golden import cases, plan_text, read_world


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_the_plan_is_the_one_that_was_read_and_agreed(case: Path) -> None:
    written = case / "plan.yaml"
    assert written.exists(), f"{written} is missing: hack/generate/golden writes it; read it before you commit it"
    assert plan_text(case) == written.read_text(), "hack/generate/golden writes the new plan: read the difference"


def test_a_word_that_nobody_reads_is_an_error() -> None:
    with pytest.raises(ValueError, match="says what nobody reads: sesion"):
        read_world({"about": "A typing error.", "sesion": {"phase": "Ready"}})
