"""Plan files: what is saved loads back equal, and numbers that do not fit are refused with their line."""

import json

import pytest
from msgspec.structs import replace

from rankcast.model.errors import InvalidFileError
from rankcast.placement.named.plan import PlacementPlan, PlannedBroker
from rankcast.storage.placement_files import VERSION, load_placement_plan, save_placement_plan

BOX = {"rent": (0.0, 5.0), "rooms": (1.0, 2.0)}
LISBON = PlannedBroker(name="lisbon", at=(1.0, 1.0), traffic=5.0, filter=(BOX,), subscribers=(), wants=())
PLAN = PlacementPlan(
    algorithm="greedy-offline",
    traffic=5.0,
    load_factor=1.0,
    rms_delay=0.0,
    violations=("a load",),
    publisher=(0.0, 0.0),
    attributes={"rent": (0.0, 10.0), "rooms": (1.0, 6.0)},
    interests=((BOX,), (BOX, BOX)),
    brokers=(LISBON, replace(LISBON, name="porto", below="lisbon", subscribers=("ana", "bob"), wants=(0, 1))),
)
SAMPLED = replace(PLAN, events=((1.0, 2.0), (3.0, 4.0)), weights=(0.5, 1.5), words={"rooms": ("few", "many")})


@pytest.mark.parametrize("plan", [PLAN, SAMPLED], ids=["uniform", "sampled"])
def test_a_saved_plan_loads_back_equal(tmp_path, plan):
    save_placement_plan(tmp_path / "plan.json", plan.document())
    assert PlacementPlan.from_document(load_placement_plan(tmp_path / "plan.json")) == plan


def test_everything_is_the_volume_of_all_ranges_or_the_weight_of_all_events():
    assert PLAN.everything == 50.0
    assert SAMPLED.everything == 2.0


def broken(change):
    document = json.loads(json.dumps({"version": VERSION, **SAMPLED.document()}))
    change(document)
    return document


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda plan: plan["brokers"][1]["wants"].append(0), "3 numbers for 2 subscribers; expected one for each"),
        (lambda plan: plan["brokers"][1].update(wants=[0, 2]), "there is no interest 2; expected 0 to 1"),
        (lambda plan: plan["brokers"][1].update(at=[2]), "[2]; expected 2 numbers, as the publisher"),
        (lambda plan: plan["brokers"][0]["filter"][0].update(rent=[6, 5]), "6 to 5; expected low <= high"),
        (lambda plan: plan["brokers"][0]["filter"][0].pop("rent"), "ranges of rooms; expected rent, rooms"),
        (lambda plan: plan["interests"][1][0].update(floor=[0, 1]), "ranges of floor, rent, rooms"),
        (lambda plan: plan["attributes"].update(rent=[5, 5]), "5 to 5; expected a lowest value below the highest"),
        (lambda plan: plan.pop("weights"), "expected one weight for each of the events"),
        (lambda plan: plan["events"][0].pop(), "[1.0]; expected 2 numbers, one for each attribute"),
        (lambda plan: plan.pop("brokers"), "missing: 'brokers'"),
    ],
)
def test_what_does_not_fit_is_refused(tmp_path, change, message):
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(broken(change), indent=1))
    with pytest.raises(InvalidFileError) as caught:
        load_placement_plan(path)
    assert message in str(caught.value)
    assert caught.value.problems[0].line is not None
