"""What an image is kept under, what its archive is called, and what of the host reaches a base image."""

import io
import json
import tarfile
from pathlib import Path

import pytest

from imaging import builds, debian, engine, staging
from imaging.staging import Image


def stage_one(context: Path) -> None:
    (context / "file").write_text("content")


def finish(context: Path, cache: Path) -> None:
    del cache
    (context / "late").write_text("made of the inputs")


IMAGE = Image("sample-agent", has_base=True, stage=stage_one, finish=finish)


def test_the_key_follows_every_input(tmp_path: Path) -> None:
    stage_one(tmp_path)
    first = staging.digest(IMAGE, tmp_path, "base-1")
    assert staging.digest(IMAGE, tmp_path, "base-1") == first
    assert staging.digest(IMAGE, tmp_path, "base-2") != first
    (tmp_path / "file").write_text("Content")
    assert staging.digest(IMAGE, tmp_path, "base-1") != first


def test_an_image_without_a_base_does_not_care_for_it(tmp_path: Path) -> None:
    image = Image("sandhold-keeper", has_base=False, stage=stage_one, finish=finish)
    assert staging.digest(image, tmp_path, "base-1") == staging.digest(image, tmp_path, "base-2")


def test_a_renamed_file_is_another_input(tmp_path: Path) -> None:
    stage_one(tmp_path)
    first = staging.digest(IMAGE, tmp_path, "base")
    (tmp_path / "file").rename(tmp_path / "other")
    assert staging.digest(IMAGE, tmp_path, "base") != first


def test_an_archive_gets_both_names_and_keeps_its_layers(tmp_path: Path) -> None:
    layer, manifest = b"layer" * 1000, json.dumps([{"RepoTags": ["one"], "Layers": ["l.tar"]}]).encode()
    with tarfile.open(tmp_path / "old.tar", "w") as tar:
        for name, content in (("l.tar", layer), ("manifest.json", manifest)):
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    engine._named(tmp_path / "old.tar", ["x:dev-1", "x:dev"], tmp_path / "new.tar")
    with tarfile.open(tmp_path / "new.tar") as tar:
        found = {name: tar.extractfile(name) for name in tar.getnames()}
        contents = {name: file.read() for name, file in found.items() if file}
    assert contents["l.tar"] == layer
    assert json.loads(contents["manifest.json"])[0]["RepoTags"] == ["x:dev-1", "x:dev"]


class CountingEngine:
    """Stands for buildah, which a unit test does not run; what it is asked is what is tested."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []

    def base_key(self) -> str:
        return "base"

    def build(self, target: str, context: Path, names: list[str], archive: Path) -> None:
        assert (context / "late").exists(), f"{target} was not finished"
        self.asked.append(names)
        archive.write_text("image")


@pytest.fixture
def cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CountingEngine:
    counting = CountingEngine()
    monkeypatch.setenv("SANDHOLD_CACHE", str(tmp_path))
    monkeypatch.setattr(builds, "IMAGES", (IMAGE,))
    monkeypatch.setattr(engine, "choose", lambda: counting)
    return counting


def test_what_is_built_is_not_built_again(cached: CountingEngine, capsys: pytest.CaptureFixture[str]) -> None:
    [first] = builds.build_all()
    [second] = builds.build_all()
    assert first == second
    assert cached.asked == [[first.reference, first.moving]]
    assert "built 1, reused 0" in capsys.readouterr().out.splitlines()[-2]


def test_a_killed_build_is_swept_and_done_again(cached: CountingEngine) -> None:
    torn = builds.directory() / ".unfinished-sample-agent" / "context" / "file"
    torn.parent.mkdir(parents=True)
    torn.write_text("half")
    (builds.directory() / ".unfinished-sample-agent.tar").write_text("half")
    [made] = builds.build_all()
    assert made.archive.read_text() == "image"
    assert [path.name for path in builds.directory().iterdir()] == [made.archive.name]
    assert len(cached.asked) == 1


def test_a_one_line_entry_becomes_a_stanza() -> None:
    stanza = debian._as_stanza("deb [arch=amd64 signed-by=/keys/a.gpg] http://mirror/debian bookworm main contrib")
    assert stanza.splitlines() == [
        "Types: deb",
        "URIs: http://mirror/debian",
        "Suites: bookworm",
        "Components: main contrib",
        "Signed-By: /keys/a.gpg",
    ]
    assert debian._as_stanza("deb-src http://mirror/debian bookworm main") == ""
