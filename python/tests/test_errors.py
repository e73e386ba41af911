"""Error conditions as data, and the errors that the plugin sends."""

from __future__ import annotations

import copy
import json
import pickle
import re
from importlib import resources
from pathlib import Path

import pytest

import laneshift
from laneshift.control import address, process
from laneshift.errors import (
    KINDS,
    InputError,
    LaneshiftError,
    conditions,
    error,
    from_jvm,
    placeholders,
    shown,
)
from laneshift.inputcheck import whole

SOURCES = Path(laneshift.__file__).parent


def of(condition: str) -> set[str]:
    return placeholders(conditions()[condition]["message"])


def test_the_file_is_sorted_and_written_one_way() -> None:
    text = resources.files("laneshift").joinpath("error_conditions.json").read_text("utf-8")
    expected = json.dumps(json.loads(text), indent=2, sort_keys=True) + "\n"
    assert text == expected, "write it with json.dumps(..., indent=2, sort_keys=True)"


@pytest.mark.parametrize("name", sorted(conditions()))
def test_a_condition_has_a_kind_a_state_and_a_sentence_with_a_way_out(name: str) -> None:
    condition = conditions()[name]
    assert re.fullmatch(r"LANESHIFT(_[A-Z]+)+", name)
    assert condition.keys() == {"kind", "message", "sqlState"}
    assert condition["kind"] in KINDS
    assert re.fullmatch(r"[0-9A-Z]{5}", condition["sqlState"])
    assert condition["message"].endswith((".", ">"))
    assert placeholders(condition["message"])


@pytest.mark.parametrize(
    "made",
    [
        error("LANESHIFT_NO_RESCALE", **{p: p for p in of("LANESHIFT_NO_RESCALE")}),
        InputError("cores", lambda: 4, "a number", "Give one."),
        from_jvm("LANESHIFT_NEW", "from a newer plugin", {}),
    ],
    ids=["ours", "input", "plugin"],
)
def test_an_error_reaches_another_process(made: LaneshiftError) -> None:
    for again in (pickle.loads(pickle.dumps(made)), copy.copy(made), copy.deepcopy(made)):
        assert type(again) is type(made)
        assert (str(again), again.condition, again.sqlstate) == (
            str(made),
            made.condition,
            made.sqlstate,
        )
        assert again.parameters == made.parameters


@pytest.mark.parametrize("name", sorted(conditions()))
def test_a_condition_formats_with_its_parameters_only(name: str) -> None:
    parameters = {p: f"[{p}]" for p in placeholders(conditions()[name]["message"])}
    made = error(name, **parameters)
    assert type(made) is KINDS[conditions()[name]["kind"]]
    assert (made.condition, made.parameters) == (name, parameters)
    assert made.sqlstate == conditions()[name]["sqlState"]
    for value in parameters.values():
        assert value in str(made)
    with pytest.raises(KeyError, match=name):
        error(name)


def test_every_condition_is_raised_somewhere_and_every_raised_one_is_known() -> None:
    code = "".join(path.read_text("utf-8") for path in SOURCES.rglob("*.py"))
    raised = set(re.findall(r'"(LANESHIFT(?:_[A-Z]+)+)"', code)) - {
        process.VARIABLE,
        address.CONTROL_VARIABLE,
        address.TOKEN_VARIABLE,
        address.TOKEN_FILE_VARIABLE,
    }
    raised |= {"LANESHIFT_NO_SUCH_SHARD", "LANESHIFT_NO_SUCH_LANE"}  # made of the argument's name
    by_the_plugin = {
        *("NOT_MOVABLE", "OTHER_AUTOSCALER", "PARTITION_MOVED", "SOURCE_NOT_LIMITED"),
        *("EXECUTOR_IS_HOME", "LANES_STAY_HOME", "MORE_LANES_THAN_CORES"),
        *("NO_SUCH_EXECUTOR", "TOO_MANY_ELSEWHERE"),
        *("PARTITIONS_OUT_OF_RANGE", "RESCALE_RUNS", "NOT_RESCALABLE", "NO_RESCALE"),
        *("NO_KEYS", "NOTHING_ABOVE"),
    }
    raised |= {f"LANESHIFT_{name}" for name in by_the_plugin}
    assert raised == set(conditions())


def test_an_error_of_the_plugin_keeps_its_own_words() -> None:
    made = from_jvm("LANESHIFT_NO_SUCH_LANE", "lane 9 of 0 to 3", {"lane": "9"}, "42704")
    assert isinstance(made, laneshift.NotFoundError)
    assert str(made) == "[LANESHIFT_NO_SUCH_LANE] lane 9 of 0 to 3"
    assert made.parameters == {"lane": "9"}


def test_an_unknown_condition_of_the_plugin_is_a_plain_error() -> None:
    made = from_jvm("LANESHIFT_NEW", "later", {})
    assert type(made) is laneshift.LaneshiftError
    assert made.sqlstate == "XX000"


def test_a_wrong_input_is_an_argument_error_like_any_other() -> None:
    with pytest.raises(
        laneshift.ArgumentError, match="found -1, expected a whole number"
    ) as caught:
        whole("cores", -1, low=1, unit="cores")
    assert isinstance(caught.value, laneshift.InputError)
    assert (caught.value.condition, caught.value.sqlstate) == ("LANESHIFT_INVALID_INPUT", "22023")
    assert (caught.value.field, caught.value.found) == ("cores", -1)


def test_long_values_are_shortened_in_messages() -> None:
    assert len(shown("x" * 1000)) == 80


def test_errors_are_also_what_python_programmers_expect() -> None:
    assert issubclass(laneshift.ArgumentError, ValueError)
    assert issubclass(laneshift.NotFoundError, LookupError)
    assert issubclass(laneshift.SessionError, RuntimeError)
    assert issubclass(laneshift.UnsupportedError, NotImplementedError)


@pytest.mark.parametrize("name", sorted(n for n in laneshift.__all__ if n.endswith("Error")))
def test_every_class_of_errors_can_be_pickled(name: str) -> None:
    kind = getattr(laneshift, name)
    made = (
        kind("lanes", 0, "1 to 6", "Give fewer.")
        if kind is InputError
        else kind("LANESHIFT_NO_RESCALE", {"query": "orders"})
    )
    again = pickle.loads(pickle.dumps(made))
    assert type(again) is kind and vars(again) == vars(made) and str(again) == str(made)
