"""Whatever is kept as arrays comes back as it was; what was damaged or made up is refused, or can be used in safety."""

import json
import struct
from multiprocessing import get_context

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kept_arrays import KEPT, Answer, answer, answer_all
from rankcast.containers.container import NO_CHECKSUM, TYPES, pack, unpack

PREFIX = struct.Struct("<8sIIQ")
SEEDS = st.integers(0, 1_000)


def without_mark(packed, kept):
    found = unpack(packed, kept.kind, kept.version)
    metadata = {name: value for name, value in found.metadata.items() if name != "mark"}
    return metadata, {name: (array.shape, array.tobytes()) for name, array in found.arrays.items()}


@pytest.mark.parametrize("name", KEPT)
@settings(max_examples=15)
@given(seed=SEEDS)
def test_what_is_kept_comes_back(name, seed):
    kept = KEPT[name]
    packed = kept.write(kept.read(kept.write(kept.make(seed))))  # a shard that is read forgets some more
    assert without_mark(kept.write(kept.read(packed)), kept) == without_mark(packed, kept)
    assert kept.use(kept.read(packed)) == kept.use(kept.make(seed))


class Worker:
    """A process that reads and uses bytes; another one is started when it ends."""

    def __init__(self):
        self._start()

    def _start(self):
        context = get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=answer_all, args=(theirs,), daemon=True)
        self._process.start()
        theirs.close()

    def __call__(self, name, packed):
        self._connection.send((name, packed))
        if not self._connection.poll(120):
            self.close()
            self._start()
            pytest.fail("the process does not answer")
        try:
            return self._connection.recv()
        except EOFError:
            self._process.join()
            code = self._process.exitcode
            self._start()
            pytest.fail(f"the process ended with {code}")

    def close(self):
        self._process.kill()
        self._process.join()


@pytest.fixture(scope="module")
def worker():
    found = Worker()
    yield found
    found.close()


EXTREMES = st.sampled_from([0, 1, -1, 2, 3, 64, 2**31 - 1, -(2**31), 2**62, 2**63 - 1, -(2**63)])


@st.composite
def changed_numbers(draw, kept, packed):
    """A container in which some numbers are others: near the old ones, at the ends of their type, or anything."""
    found = unpack(packed, kept.kind, kept.version)
    arrays = {name: array.copy() for name, array in found.arrays.items()}
    for _ in range(draw(st.integers(1, 3))):
        name = draw(st.sampled_from(sorted(name for name, array in arrays.items() if array.size)))
        flat = arrays[name].reshape(-1)
        at = draw(st.integers(0, len(flat) - 1))
        if flat.dtype.kind == "f":
            flat[at] = draw(st.floats(width=64))
        elif flat.dtype.kind == "b":
            flat[at] = not flat[at]
        else:
            information = np.iinfo(flat.dtype)
            near = st.integers(-2, 2).map(int(flat[at]).__add__)
            value = draw(near | EXTREMES | st.integers(information.min, information.max))
            flat[at] = min(max(value, information.min), information.max)
    return pack(kept.kind, kept.version, arrays, found.metadata)


@st.composite
def changed_arrays(draw, kept, packed):
    """A container in which arrays are longer, shorter, of another type or shape, exchanged or missing."""
    found = unpack(packed, kept.kind, kept.version)
    arrays = dict(found.arrays)
    name, other = draw(st.sampled_from(sorted(arrays))), draw(st.sampled_from(sorted(arrays)))
    array = arrays[name]
    kind = draw(st.sampled_from(["shorter", "longer", "empty", "type", "shape", "exchanged", "missing"]))
    if kind == "missing":
        del arrays[name]
    elif kind == "exchanged":
        arrays[name], arrays[other] = arrays[other], arrays[name]
    elif kind == "type":
        with np.errstate(invalid="ignore", over="ignore"):
            arrays[name] = array.astype(TYPES[draw(st.sampled_from(sorted(TYPES)))])
    elif kind == "shape":
        arrays[name] = array.reshape(*draw(st.sampled_from([(-1, 1), (1, -1), (1, 1, -1)])))
    else:
        arrays[name] = {"shorter": array[:-1], "longer": np.concatenate([array, array[-1:]]), "empty": array[:0]}[kind]
    return pack(kept.kind, kept.version, arrays, found.metadata)


JSON = st.sampled_from([None, -1, 0, 1, 2**64, 1.5, "", "../../x", [], {}, [[]], True, 10**6])


@st.composite
def changed_headers(draw, kept, packed):
    """A container whose header says something else somewhere."""
    magic, layout, _, size = PREFIX.unpack_from(packed)  # without a checksum: whoever makes it up need not have one
    header = json.loads(packed[PREFIX.size : PREFIX.size + size])
    entry = draw(st.sampled_from(header["arrays"]))
    place = draw(st.sampled_from(["name", "type", "shape", "place", "entry", "metadata", "header"]))
    if place == "metadata" and header["metadata"]:
        header["metadata"][draw(st.sampled_from(sorted(header["metadata"])))] = draw(JSON)
    elif place == "header":
        header[draw(st.sampled_from(sorted(header)))] = draw(JSON)
    elif place == "entry":
        header["arrays"][draw(st.integers(0, len(header["arrays"]) - 1))] = draw(JSON)
    elif place == "type":
        entry[1] = draw(st.sampled_from([*TYPES, ">i8", "|O", "<M8[us]", "<U3", "V8", "<c16", ""]))
    elif place == "name":
        entry[0] = draw(st.sampled_from(["..", "/etc/passwd", "a/b", "", "A", header["arrays"][0][0], "queue\0"]))
    elif place == "shape":
        entry[2] = draw(st.lists(st.sampled_from([0, 1, 2, 7, -1, 2**31, 2**61, 2**63, 2**70]), max_size=9))
    else:
        entry[3] = draw(st.integers(-(2**64), 2**64) | st.integers(0, 5).map(lambda at: 64 * at))
    text = json.dumps(header).encode()
    start = PREFIX.size + size
    data = packed[start + -start % 64 :]
    found = PREFIX.pack(magic, layout, NO_CHECKSUM, len(text))
    return found + text + bytes(-(len(found) + len(text)) % 64) + data


@st.composite
def damaged(draw, packed):
    """Bytes of which some are others, cut short or with more behind them."""
    if draw(st.booleans()):
        length = draw(st.integers(0, len(packed) - 1))
        return packed[:length] if draw(st.booleans()) else packed + packed[:length]
    changed = bytearray(packed)
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(packed) - 1) | st.integers(0, 200))
        changed[min(at, len(packed) - 1)] ^= draw(st.integers(1, 255))
    return bytes(changed)


WRITTEN = {(name, seed): kept.write(kept.make(seed)) for name, kept in KEPT.items() for seed in (0, 1)}


@pytest.mark.parametrize("name", KEPT)
@settings(max_examples=max(200, settings.default.max_examples))
@given(data=st.data(), seed=st.sampled_from([0, 1]))
def test_what_was_damaged_or_made_up_is_refused_or_can_be_used(worker, name, data, seed):
    kept, packed = KEPT[name], WRITTEN[name, seed]
    ways = [changed_numbers(kept, packed), changed_arrays(kept, packed), changed_headers(kept, packed), damaged(packed)]
    answer = worker(name, data.draw(st.one_of(ways)))
    assert answer.outcome in ("used", "refused"), answer.message
    assert answer.outcome == "used" or answer.message.startswith(("InvalidFileError: ", "InvalidValueError: "))


def test_a_rank_below_0_that_decays_can_be_used():
    kept = KEPT["compiled subscribers"]
    found = unpack(WRITTEN["compiled subscribers", 0], kept.kind, kept.version)
    arrays = {**found.arrays, "ranks.weight": -found.arrays["ranks.weight"]}
    assert answer(kept, pack(kept.kind, kept.version, arrays, found.metadata)) == Answer("used")
