"""The guard of the layout: it must turn red for what it guards against."""

import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]


def verify(root: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([root / "hack" / "verify" / "layout"], check=False, capture_output=True, text=True)


def tree(tmp_path: Path) -> Path:
    (tmp_path / "hack" / "verify").mkdir(parents=True)
    (tmp_path / "operator" / "sandhold").mkdir(parents=True)
    shutil.copy2(ROOT / "hack" / "verify" / "layout", tmp_path / "hack" / "verify" / "layout")
    return tmp_path


def test_this_tree_is_right() -> None:
    assert verify(ROOT).returncode == 0, verify(ROOT).stderr


def test_operator_must_not_become_a_package(tmp_path: Path) -> None:
    root = tree(tmp_path)
    assert verify(root).returncode == 0
    (root / "operator" / "__init__.py").touch()
    assert verify(root).returncode == 1
    assert "never a package" in verify(root).stderr


def test_no_module_takes_a_name_of_the_standard_library(tmp_path: Path) -> None:
    root = tree(tmp_path)
    (root / "operator" / "sandhold" / "queue.py").touch()
    assert verify(root).returncode == 1
    assert "queue.py" in verify(root).stderr
