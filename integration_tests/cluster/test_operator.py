"""An operator on a machine without Spark steers a query of a driver on another one, over TLS."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
import trustme
from cluster.cluster import ELASTIC, PACKAGE, Cluster
from cluster.compare import Answers, Same
from cluster.orders import Orders

pytestmark = pytest.mark.timeout(1500)

PORT = "15010"
CONTROL = {
    **ELASTIC,
    "spark.sql.laneshift.lanes": "1",
    "spark.sql.laneshift.maxLanes": "4",
    "spark.sql.laneshift.shardsPerPartition": "16",
    "spark.sql.laneshift.control.port": PORT,
    "spark.sql.laneshift.control.address": "0.0.0.0",
}
REFUSED, UNREACHABLE = 5, 4


@dataclass(frozen=True)
class Said:
    """What a command has printed, and its exit code."""

    text: str
    code: int


class Operator:
    """A machine of its own, with the package and what its extra ``control`` asks for."""

    def __init__(self, cluster: Cluster) -> None:
        self._engine = cluster.engine
        env = {"PATH": "/opt/operator/bin:/usr/bin:/bin", "PYTHONPATH": PACKAGE}
        self._engine.start("operator", "sleep", "infinity", env=env)

    def shell(self, command: str) -> Said:
        """Run it, whatever its exit code."""
        text = self._engine.inside("operator", "sh", "-c", f"{{ {command} ; }} 2>&1; echo $?")
        said, _, code = text.rpartition("\n")
        return Said(said, int(code))

    def laneshift(self, command: str, more: str = "", **variables: str) -> Said:
        """``laneshift COMMAND`` with these environment variables."""
        pairs = " ".join(f"{name}={value}" for name, value in variables.items())
        return self.shell(f"env {pairs} python -m laneshift.cli {command} {more}")

    def close(self) -> None:
        self._engine.remove("operator")


@pytest.fixture
def operator(cluster: Cluster) -> Iterator[Operator]:
    made = Operator(cluster)
    yield made
    made.close()


def test_an_operator_on_another_machine(
    cluster: Cluster, orders: Orders, operator: Operator, expected: Answers, same: Same
) -> None:
    folder = cluster.data / "control"
    folder.mkdir()
    # The driver's name is known once it runs; whoever signs certificates knows it before.
    driver_name = cluster.next_driver()
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(folder / "ca.pem"))
    server = authority.issue_cert(driver_name)
    server.private_key_pem.write_to_path(str(folder / "server.key"))
    server.cert_chain_pems[0].write_to_path(str(folder / "server.pem"))
    driver = orders.start(
        {
            **CONTROL,
            "spark.sql.laneshift.control.tokenFile": "/data/control/token",
            "spark.sql.laneshift.control.tls.certificate": "/data/control/server.pem",
            "spark.sql.laneshift.control.tls.key": "/data/control/server.key",
        },
        package=True,
        until="/data/control/enough",
    )
    listening = "token.address"
    driver.until("the control service", lambda: (folder / listening).is_file())
    assert operator.shell("python -c 'import pyspark'").code == 1, "a machine without Spark"
    operator.shell("install -m 600 /data/control/token /root/token; cp /data/control/ca.pem /root")
    there = {
        "LANESHIFT_CONTROL": f"{driver_name}:{PORT}",
        "LANESHIFT_TOKEN_FILE": "/root/token",
    }

    def ask(command: str) -> Said:
        said = operator.laneshift(command, "--ca /root/ca.pem", **there)
        assert said.code == 0, (command, said, driver.tail())
        return said

    def lanes() -> set[int]:
        """Numbers of lanes that partitions of the deduplication have."""
        found = json.loads(ask("snapshot --json").text)
        return {
            part["lanes"]
            for query in found["queries"]
            for operator in query["operators"]
            if (query["name"], operator["operator_id"]) == ("amounts", 0)
            for part in operator["partitions"]
        }

    driver.until("its partitions", lambda: lanes() == {1})
    ask("lanes amounts 3")
    driver.until("three lanes each", lambda: lanes() == {3})
    assert "amounts" in ask("top --once").text
    ask("autoscale minutes --policy elasticutor --target-latency 50ms")
    assert "elasticutor" in ask("autoscalers").text
    ask("decisions --limit 5")
    ask("autoscale --stop")
    drawn = operator.laneshift("report --live --duration 2s", "--ca /root/ca.pem", **there)
    assert drawn.code == 2 and "pip install matplotlib" in drawn.text, drawn
    for word in ("wrong", "no", "unsafe", "nowhere"):
        refused(word, operator, there)
    (folder / "enough").touch()
    driver.succeed()
    assert driver.most_lanes >= 3
    same(orders.answers(), expected, orders.lives)
    # Its address is nobody's any more.
    said = operator.laneshift("snapshot", "--ca /root/ca.pem", **there)
    assert said.code == UNREACHABLE, said


def refused(word: str, operator: Operator, there: dict[str, str]) -> None:
    """Somebody who should not get in, or does not know how, is told why."""
    tls = "--ca /root/ca.pem"
    if word == "wrong":
        given = {**there, "LANESHIFT_TOKEN": "0" * 32}
        del given["LANESHIFT_TOKEN_FILE"]
        said = operator.laneshift("snapshot", tls, **given)
        assert said.code == REFUSED and "token" in said.text, said
    elif word == "no":
        said = operator.laneshift("snapshot", tls, LANESHIFT_CONTROL=there["LANESHIFT_CONTROL"])
        assert said.code == 2 and "LANESHIFT_TOKEN_FILE" in said.text, said
    elif word == "unsafe":
        said = operator.laneshift("snapshot", "", **there)
        assert said.code == UNREACHABLE and "TLS" in said.text, said
    else:
        given = {**there, "LANESHIFT_CONTROL": there["LANESHIFT_CONTROL"].replace(PORT, "15011")}
        said = operator.laneshift("snapshot", tls, **given)
        assert said.code == UNREACHABLE and "15011" in said.text, said
    assert "Traceback" not in said.text, said
