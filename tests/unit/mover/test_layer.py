"""How a layer is cut: within what S3 takes, and within memory."""

import pytest

from sandhold.mover.layer import PART, layer_ceiling, part_size

TIB = 1024**4


@pytest.mark.parametrize("max_bytes", [1, 1024**3, 50 * 1024**3, 500 * 1024**3])
def test_a_layer_at_its_ceiling_has_no_more_parts_than_s3_takes(max_bytes: int) -> None:
    ceiling = layer_ceiling(max_bytes, 100_000)
    assert ceiling > max_bytes
    assert -(-ceiling // part_size(ceiling)) <= 10_000
    assert PART <= part_size(ceiling) <= 64 * 1024 * 1024


def test_parts_never_grow_beyond_memory() -> None:
    assert part_size(100 * TIB) == 64 * 1024 * 1024
