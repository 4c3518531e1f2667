"""Problem files of `rankcast place`.

A problem file says where publisher, brokers and subscribers are, what subscribers want and what is allowed. Instead of
a list of subscribers it can name a subscriber file and say at which sites these are; or it names a workload to draw.
Everything wrong with it is reported with its line.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from rankcast.model.errors import InvalidFileError, InvalidPartsError, InvalidValueError, PlacementError, Problem, shown
from rankcast.model.events import Event
from rankcast.placement.named.problem import (
    NamedDemand,
    NamedProblem,
    check_magnitudes,
    deployed_demand,
    listed_demand,
    named_problem,
)
from rankcast.placement.problem.boxes import corners, hull
from rankcast.placement.problem.problem import Latency
from rankcast.samples.placement import DELAY, Workload, placement_problem
from rankcast.storage.document_schema import (
    AMOUNT,
    COUNT,
    NAME,
    PLACE,
    POINT,
    RANGE,
    check_shape,
    listed,
    mapping,
    named,
    refuse,
)
from rankcast.storage.documents import Document, load_document
from rankcast.storage.events.files import read_events
from rankcast.storage.placement_plans import wrong_brokers
from rankcast.storage.subscribers.files import load_subscribers

_LATENCIES = [one.value for one in Latency]
_LATENCY = {"title": f"one of {', '.join(_LATENCIES)}", "enum": _LATENCIES}
_LIMITS = {"delay": AMOUNT, "alpha": COUNT, "beta": AMOUNT, "beta_max": AMOUNT, "latency": _LATENCY}
_BROKER = mapping(["name", "at"], name=NAME, at=POINT, below=NAME, alpha=COUNT, share=AMOUNT)
_SUBSCRIBER = mapping(["name", "at", "wants"], name=NAME, at=POINT, wants=NAME, limit=AMOUNT)
_SITE = mapping(["at"], at=POINT, subscribers=listed(NAME, "a list of names"), limit=AMOUNT)
_AXIS = {
    "title": "a range such as [0, 100], or numbers, times or words",
    "anyOf": [RANGE, {"enum": ["numbers", "times", "words"]}],
}
_LISTED = mapping(
    ["publisher", "brokers", "attributes", "subscribers"],
    publisher=POINT,
    brokers=listed(_BROKER, "a list of brokers", 1),
    attributes=named(RANGE, "a range for each attribute"),
    subscribers=listed(_SUBSCRIBER, "a list of subscribers", 1),
    **_LIMITS,
)
_DEPLOYED = mapping(
    ["publisher", "brokers", "subscribers", "sites"],
    publisher=POINT,
    brokers=listed(_BROKER, "a list of brokers", 1),
    attributes=named(_AXIS, "a range or a kind for each attribute"),
    subscribers=NAME,
    sites=listed(_SITE, "a list of sites", 1),
    events=NAME,
    **_LIMITS,
)
_DRAWN = mapping(
    ["workload", "subscribers", "brokers"],
    workload={"title": f"one of {', '.join(one.value for one in Workload)}", "enum": [one.value for one in Workload]},
    subscribers=COUNT,
    brokers=COUNT,
    seed=PLACE,
    delay=AMOUNT,
)


def read_problem(path: Path) -> NamedProblem:
    """Read a problem file; raise InvalidFileError with everything that is wrong with it."""
    document = load_document(path)
    value = document.value if isinstance(document.value, dict) else {}
    if _lists_subscriptions(value):
        wrong = "a file of subscribers; expected a problem file, which names this one under `subscribers`"
        raise InvalidFileError([Problem(str(path), None, wrong)])
    is_drawn, is_deployed = "workload" in value, isinstance(value.get("subscribers"), str)
    check_shape(document, _DRAWN if is_drawn else _DEPLOYED if is_deployed else _LISTED)
    try:
        if is_drawn:
            return _drawn(value)
        _check_names(document)
        check_magnitudes(value)
        return named_problem(value, _deployed(value, path.parent) if is_deployed else listed_demand(value), DELAY)
    except InvalidPartsError as error:
        refuse(document, error.parts)
        raise
    except (PlacementError, InvalidValueError) as error:
        raise InvalidFileError([Problem(str(path), None, str(error))]) from None


def _lists_subscriptions(value: Mapping[str, Any]) -> bool:
    """Whether this is a subscriber file, and no problem file with something wrong."""
    listed_ones = value.get("subscribers")
    if not isinstance(listed_ones, list) or value.keys() & {"publisher", "brokers", "workload"}:
        return False
    return any(isinstance(one, dict) and "subscriptions" in one for one in listed_ones)


def _drawn(value: Mapping[str, Any]) -> NamedProblem:
    random = np.random.default_rng(value.get("seed", 0))
    made = placement_problem(
        Workload(value["workload"]), value["subscribers"], value["brokers"], random, value.get("delay", DELAY)
    )
    names = tuple(f"broker {number}" for number in range(len(made.tree)))
    low, high = corners(hull(made.interests.sides))
    ranges = zip(low.tolist(), high.tolist(), strict=True)
    return NamedProblem(made, names, {f"x{axis}": ends for axis, ends in enumerate(ranges, 1)})


def _deployed(value: Mapping[str, Any], folder: Path) -> NamedDemand:
    """Return the subscribers of the file that a problem file names, and how the events of the other one are spread."""
    loaded = load_subscribers(folder / value["subscribers"])
    remarks = [str(problem) for problem in loaded.problems]
    events = _events(folder / value["events"], remarks) if "events" in value else None
    return deployed_demand(value, loaded.subscribers, events, remarks)


def _events(path: Path, remarks: list[str]) -> Iterator[Event]:
    for one in read_events(path):
        if isinstance(one, Problem):
            remarks.append(str(one))
        else:
            yield one


def _check_names(document: Document) -> None:
    """Refuse names that are there twice, and brokers below one that is not there or in a cycle."""
    value = document.value
    wrong = wrong_brokers(value["brokers"])
    seen = set()
    for at, one in enumerate(value["subscribers"] if isinstance(value["subscribers"], list) else ()):
        if one["name"] in seen:
            wrong["subscribers", at, "name"] = f"there is another {shown(one['name'])}"
        seen.add(one["name"])
    refuse(document, wrong)
