"""What the extras of the package bring is what is imported with them."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]


def test_the_package_brings_the_protobuf_that_transform_with_state_imports() -> None:
    import pyspark

    code = Path(pyspark.__file__).parent / "sql" / "streaming" / "proto" / "StateMessage_pb2.py"
    (made_by,) = re.findall(r"^# Protobuf Python Version: (\S+)$", code.read_text("utf-8"), re.M)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    asked = map(Requirement, project["dependencies"])
    (protobuf,) = (found.specifier for found in asked if found.name == "protobuf")
    assert protobuf.contains(made_by), f"StateMessage_pb2.py was made by protobuf {made_by}"
    older = f"{made_by.rpartition('.')[0]}.0"
    assert not protobuf.contains(older), "it refuses to run with an older protobuf"
