"""The real data: complete, in order, with its nulls."""

from __future__ import annotations

import pytest

from laneshift_demo import flights
from laneshift_demo.failure import DemoError


def test_all_flights_are_there_in_event_time_order() -> None:
    table = flights.load()
    assert table.num_rows == 336_776
    assert tuple(table.column_names) == flights.COLUMNS
    times = table["event_s"].to_numpy()
    assert (times[1:] >= times[:-1]).all()
    assert table["dep_delay"].null_count == 8_255
    assert table["dest"].null_count == table["carrier"].null_count == 0
    first = table.slice(0, 1).to_pylist()[0]
    # 2013-01-01 05:15 on New York's clocks, taken as they stand
    assert first == {
        "event_s": 1357017300,
        "dest": "IAH",
        "carrier": "UA",
        "dep_delay": 2,
        "distance": 1400,
    }


def test_without_the_data_package_the_message_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(flights, "find_spec", lambda name: None)
    with pytest.raises(DemoError, match="make setup"):
        flights.load()
