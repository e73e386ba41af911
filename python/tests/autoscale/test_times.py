"""When the loop looks, claims and hurries, on a clock by hand."""

from __future__ import annotations

from itertools import pairwise

import pytest

from autoscale.driven import Driven, driven
from autoscale.scripted import Scripted, lanes
from autoscale.test_presses import press
from laneshift.autoscale.loop import RENEW_S
from laneshift.autoscale.presses import DEAF_S, MOST_SHORT, SHORT_S
from laneshift.contract.plan import Plan
from laneshift.policies import registry
from plugin.fake import RUNNING


def test_turns_are_an_interval_apart() -> None:
    gateway = Driven(100.0)
    made = driven(gateway, Scripted(say=lambda *_: Plan()), 7.0)
    assert gateway.looks == pytest.approx([7.0 * n for n in range(15)])
    assert made.turns == 15


def test_a_turn_that_takes_long_puts_the_others_off_and_none_is_made_up_for() -> None:
    gateway = Driven(20.0)
    gateway.takes_s = lambda now: 5.5 if now == 2.0 else 0.25
    driven(gateway, Scripted(say=lambda *_: Plan()))
    assert gateway.looks[:3] == pytest.approx([0.0, 1.0, 2.0])
    # After a turn that was too long it rests for an interval at most.
    assert gateway.looks[3:] == pytest.approx([7.5 + 1.0 + n for n in range(12)])


def test_the_loop_has_a_quarter_of_a_core_at_most() -> None:
    gateway = Driven(100.0)
    gateway.works_s = 0.2
    driven(gateway, Scripted(say=lambda *_: Plan()))
    assert gateway.looks == pytest.approx([1.0 * n for n in range(100)])
    gateway = Driven(100.0)
    gateway.works_s = 2.0
    made = driven(gateway, Scripted(say=lanes(p0=4)))
    assert gateway.looks == pytest.approx([8.0 * n for n in range(13)])
    said = [note for decision in made.decisions() for note in decision.notes]
    assert said[0].startswith("a turn takes 2 s of CPU: the next one begins 8 s after it instead")


def test_the_claim_is_renewed_however_long_an_interval_is() -> None:
    gateway = Driven(7200.0)
    driven(gateway, Scripted(say=lambda *_: Plan()), 3600.0)
    assert gateway.looks == pytest.approx([0.0, 3600.0])
    gaps = [b - a for a, b in pairwise(gateway.claimed)]
    assert len(gaps) >= 7200 and max(gaps) <= RENEW_S + 1e-6


def test_an_autoscaler_that_has_died_is_waited_for() -> None:
    gateway = Driven(3.0)
    gateway.driven_by = "craa"  # for 0.1 s more
    driven(gateway, Scripted(say=lambda *_: Plan()))
    assert gateway.claimed[:2] == pytest.approx([0.0, 0.15])
    assert gateway.looks[0] == pytest.approx(0.15)


def test_after_a_press_it_hurries_and_is_deaf_for_a_while() -> None:
    gateway = Driven(60.0)
    part = gateway.data["queries"][0]["operators"][0]["partitions"][0]
    soon = press(part, gateway.data["time_ms"])
    gateway.press_at = [(3.0, soon), (3.05, soon), (3.0 + DEAF_S / 2, soon)]
    made = driven(gateway, Scripted(say=lanes(p0=4)), 30.0)
    assert gateway.sent[0] == ("set_lanes", RUNNING, 0, 0, 4)
    hurried = [at for at in gateway.looks if 0 < at < 30]
    # Short turns for all that came while it hurried; what came while it was deaf is heard later.
    first = [at for at in hurried if at < 3.0 + MOST_SHORT * SHORT_S]
    assert first and first[0] == 3.0
    later = hurried[len(first) :]
    assert not later or later[0] >= first[-1] + DEAF_S
    assert {at for at in gateway.looks if at not in hurried} == {0.0, 30.0}
    assert [d.error for d in made.decisions() if d.error and "has stopped" not in d.error] == []


@pytest.mark.parametrize("name", registry.names())
def test_an_hour_of_every_policy(name: str) -> None:
    gateway = Driven(3600.0)
    made = driven(gateway, registry.policy(name), 60.0)
    assert made.turns == 60
    assert [d.error for d in made.decisions() if d.error] == [made.decisions()[-1].error]
