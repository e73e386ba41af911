"""The sides that are compared, as settings that a query reads when it starts."""

from __future__ import annotations

from dataclasses import dataclass, field

PREFIX = "spark.sql.laneshift."


@dataclass(frozen=True, slots=True)
class Side:
    """One side: name, number of state partitions, laneshift's options (empty: stock)."""

    name: str
    options: dict[str, str] = field(default_factory=dict)
    partitions: int = 2

    @property
    def settings(self) -> dict[str, str]:
        """The session settings that make a query one of this side's."""
        settings = {PREFIX + key: value for key, value in self.options.items()}
        settings[PREFIX + "enabled"] = str(bool(self.options)).lower()
        settings["spark.sql.shuffle.partitions"] = str(self.partitions)
        return settings


def stock(partitions: int = 2) -> Side:
    """Spark's own operators."""
    return Side("stock", {}, partitions)


def elastic(lanes: int, partitions: int = 2) -> Side:
    """laneshift with so many lanes in each state partition, balancing on."""
    return Side(
        f"{lanes} lane{'s' if lanes > 1 else ''}",
        {"lanes": str(lanes), "maxLanes": str(lanes)},
        partitions,
    )


def alone(partitions: int = 2) -> Side:
    """The jar with nothing configured: lanes as the plugin finds right by itself."""
    return Side("jar alone", {"lanes": "auto"}, partitions)
