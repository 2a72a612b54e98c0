"""A build that was killed is never believed, and one that is finished is never repeated."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from testbed import versions
from testbed.build import Component, build_all
from testbed.components import COMPONENTS
from testbed.failure import TestbedError

HACK = Path(__file__).parents[2] / "hack"

# Half of the product, then a wait for as long as the file HOLD exists; without it, the whole product at once.
SLOW = """printf half >"$OUT/tool"
if test -e "$HOLD"; then
    touch "$HOLD.reached"
    while test -e "$HOLD"; do sleep 0.05; done
fi
printf whole >"$OUT/tool"
"""
BUILDER = """
import sys
from pathlib import Path
from testbed.build import Component, build_all
build_all([Component("fake", "1", Path(sys.argv[1]))], Path(sys.argv[2]))
"""


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Component:
    monkeypatch.setenv("HOLD", str(tmp_path / "hold"))
    source = tmp_path / "source"
    source.mkdir()
    (source / "build.sh").write_text(SLOW)
    return Component("fake", "1", source)


def test_a_build_killed_midway_is_made_again(
    fake: Component, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cache, hold = tmp_path / "cache", tmp_path / "hold"
    hold.touch()
    with subprocess.Popen(
        [sys.executable, "-c", BUILDER, str(fake.source), str(cache)],
        env=os.environ | {"PYTHONPATH": str(HACK)},
        start_new_session=True,
    ) as builder:
        deadline = time.monotonic() + 20
        while not (tmp_path / "hold.reached").exists():
            assert time.monotonic() < deadline, "the fake build never got half way"
            time.sleep(0.02)
        os.killpg(builder.pid, signal.SIGKILL)
    assert list((cache / "components").glob(".unfinished-fake-*")), "the kill came too late to prove anything"
    assert not fake.directory(cache).exists()

    hold.unlink()
    directory = build_all([fake], cache)["fake"]

    assert (directory / "tool").read_text() == "whole"
    assert [p.name for p in (cache / "components").iterdir()] == [directory.name]
    assert "built 1, reused 0" in capsys.readouterr().out


def test_a_finished_build_is_reused(fake: Component, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = build_all([fake], tmp_path / "cache")
    capsys.readouterr()

    assert build_all([fake], tmp_path / "cache") == first
    assert capsys.readouterr().out == "built 0, reused 1\n"


def test_another_source_or_version_is_another_build(fake: Component) -> None:
    before = fake.key()
    assert Component("fake", "2", fake.source).key() != before
    (fake.source / "build.sh").write_text(SLOW + "true\n")
    assert fake.key() != before


def test_a_failed_build_shows_the_end_of_its_log_and_leaves_no_product(fake: Component, tmp_path: Path) -> None:
    (fake.source / "build.sh").write_text('touch "$OUT/tool"\necho the compiler is upset\nexit 3\n')
    with pytest.raises(TestbedError, match="the compiler is upset"):
        build_all([fake], tmp_path / "cache")
    assert not fake.directory(tmp_path / "cache").exists()


@pytest.mark.parametrize("component", COMPONENTS, ids=lambda c: c.name)
def test_the_pinned_version_is_the_one_that_is_built(component: Component) -> None:
    if component.name == "pause":
        return  # its source is the whole of it
    assert f" v{component.version}" in (component.source / "go.mod").read_text()
    assert (component.source / "go.sum").exists()


def test_etcd_is_the_version_that_is_named() -> None:
    """It is a part of the kube binary, and so no component of its own."""
    kube = next(component for component in COMPONENTS if component.name == "kube")
    assert f"go.etcd.io/etcd/server/v3 v{versions.ETCD}\n" in (kube.source / "go.mod").read_text()
