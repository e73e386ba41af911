"""Importing laneshift costs nothing: no PySpark, no numpy until a name is used."""

from __future__ import annotations

import subprocess
import sys

import pytest

import laneshift


def loaded_by(code: str) -> set[str]:
    probe = f"{code}\nimport sys; print(*sorted({{m.split('.')[0] for m in sys.modules}}))"
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_import_laneshift_imports_neither_pyspark_nor_numpy() -> None:
    assert not loaded_by("import laneshift") & {"pyspark", "py4j", "numpy", "pandas", "matplotlib"}


def test_all_names_but_configures_work_without_pyspark() -> None:
    assert not loaded_by("from laneshift import *") & {"pyspark", "py4j", "pandas"}


def test_every_exported_name_is_there() -> None:
    for name in laneshift.__all__:
        assert getattr(laneshift, name) is not None
    assert dir(laneshift) == sorted(laneshift.__all__)
    assert callable(laneshift.configure)


def test_unknown_names_are_attribute_errors() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nope'"):
        _ = laneshift.nope  # type: ignore[attr-defined]
