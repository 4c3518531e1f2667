"""Pins: the version of a micro-batch is decided once."""

import json
import threading
from pathlib import Path

import pytest

from rankcast.model.errors import InvalidFileError
from rankcast.spark.subscribers.batch_versions import Pin, Pins, batch_of_task, watermark_of_batch


def test_the_first_pin_of_a_batch_stands(tmp_path: Path) -> None:
    pins = Pins(tmp_path / "pins")
    assert pins.of(3) is None
    assert pins.pin(Pin(3, version=1, frontier=10)) == Pin(3, 1, 10)
    assert pins.pin(Pin(3, version=2, frontier=99)) == Pin(3, 1, 10)
    assert pins.of(3) == Pin(3, 1, 10)
    assert [file.name for file in (tmp_path / "pins").iterdir()] == ["0000000003"]


def test_of_many_writers_one_wins_and_all_learn_who(tmp_path: Path) -> None:
    found: list[Pin] = []
    start = threading.Barrier(8)

    def write(version: int) -> None:
        start.wait()
        found.append(Pins(tmp_path).pin(Pin(7, version, 0)))

    threads = [threading.Thread(target=write, args=(version,)) for version in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert len(set(found)) == 1


def test_pins_are_found_by_batch_and_forgotten_in_order(tmp_path: Path) -> None:
    pins = Pins(tmp_path)
    for batch, version in ((8, 1), (9, 1), (10, 2), (100, 3)):
        pins.pin(Pin(batch, version, batch))
    assert pins.newest_before(100) == Pin(10, 2, 10)
    assert pins.newest_before(8) is None
    assert pins.versions() == {1, 2, 3}
    pins.forget_before(10)
    assert pins.of(9) is None
    assert pins.versions() == {2, 3}


@pytest.mark.parametrize("damage", ["", "{}", '{"batch": 3}', "\xff", '{"batch": 3, "version": 2, "frontier": 0}'])
def test_a_damaged_pin_is_an_error_that_names_the_file(tmp_path: Path, damage: str) -> None:
    pins = Pins(tmp_path)
    pins.pin(Pin(3, 1, 0))
    (tmp_path / "0000000003").write_text(damage, "latin-1")
    with pytest.raises(InvalidFileError, match="0000000003: is damaged: expected the version of the subscribers"):
        pins.of(3)


def test_a_pin_whose_bits_were_changed_is_damaged(tmp_path: Path) -> None:
    pins = Pins(tmp_path)
    pins.pin(Pin(3, 1, 0))
    file = tmp_path / "0000000003"
    file.write_text(file.read_text().replace('"version": 1', '"version": 2'))
    with pytest.raises(InvalidFileError, match="is damaged"):
        pins.of(3)


def test_outside_a_stream_there_is_no_batch() -> None:
    assert batch_of_task() is None


def test_the_watermark_of_a_batch_is_read_from_spark_s_offset_log(tmp_path: Path) -> None:
    (tmp_path / "offsets").mkdir()
    for batch, watermark in ((0, 0), (1, 1767225591000)):
        text = "v1\n" + json.dumps({"batchWatermarkMs": watermark, "batchTimestampMs": 5, "conf": {}}) + "\n{}"
        (tmp_path / "offsets" / str(batch)).write_text(text)
    assert watermark_of_batch(tmp_path, 0) is None
    assert watermark_of_batch(tmp_path, 1) == 1767225591000
    (tmp_path / "offsets" / "2").write_text("v1\n")
    with pytest.raises(InvalidFileError, match="is damaged or no offset log of Spark"):
        watermark_of_batch(tmp_path, 2)
    with pytest.raises(InvalidFileError, match="No such file"):
        watermark_of_batch(tmp_path, 3)
