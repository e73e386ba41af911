"""What an autoscaler is started with, checked before it touches a query."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from laneshift.contract.policy import Policy
from laneshift.errors import InputError
from laneshift.inputcheck import number, whole
from laneshift.policies import registry


@dataclass(frozen=True, kw_only=True)
class AutoscaleOptions:
    """How a policy drives queries; :meth:`laneshift.Application.autoscale` says what each means.

    Attributes:
        interval_s: time from one turn to the next (s).
        query: name, id or run id of the only query, None for all.
        cores: most cores of an executor that lanes may use (count), None for all of them.
        max_executors: executors on demand (count), None for what the application's options say.
    """

    interval_s: float = 1.0
    query: str | None = None
    cores: int | None = None
    max_executors: int | None = None
    dry_run: bool = False
    trace: str | Path | None = None

    def check(self) -> None:
        """Refuse what is out of range. Errors: :class:`~laneshift.errors.InputError`."""
        number("interval", self.interval_s, low=0.1, high=3600.0, unit="s")
        if self.cores is not None:
            whole("cores", self.cores, low=1, unit="cores")
        if self.max_executors is not None:
            whole("max_executors", self.max_executors, low=0, high=10_000, unit="executors")

    def check_for(self, policy: Policy[Any]) -> None:
        """As :meth:`check`, and executors on demand for a policy that cannot use them."""
        self.check()
        if self.max_executors and not policy.places:
            _refuse_executors(policy, self.max_executors)


def _refuse_executors(policy: Policy[Any], most: int) -> None:
    placing = [name for name in registry.names() if registry.policy_class(name).places]
    raise InputError(
        "max_executors",
        most,
        f"0 or None for the policy {policy.name}, which gives no lanes to other executors",
        f"Those that do: {', '.join(placing)}.",
    )


def chosen_policy(
    policy: str | Policy[Any], target_latency_s: float | None, parameters: dict[str, Any]
) -> Policy[Any]:
    """The policy of that name, or the one given, with its latency target (s) and parameters.

    Errors: :class:`~laneshift.errors.InputError`.
    """
    if not isinstance(policy, str):
        if not isinstance(policy, Policy):
            raise InputError(
                "policy", policy, "a name or a Policy", "`laneshift policies` lists the names."
            )
        if parameters or target_latency_s is not None:
            given = ", ".join(parameters) or "target_latency"
            raise InputError(
                "policy", policy, f"a name together with {given}", "Give the policy its parameters."
            )
        return policy
    if target_latency_s is not None:
        number("target_latency", target_latency_s, low=0, low_open=True, unit="s")
        if "target_s" not in registry.defaults(policy):
            having = [n for n in registry.names() if "target_s" in registry.defaults(n)]
            raise InputError(
                "target_latency",
                f"{target_latency_s:g} s",
                f"None for the policy {policy}, which has no latency target",
                f"Those that have one: {', '.join(having)}.",
            )
        # In micro-batch rows wait for their batch: there it is the batch that is to take no longer.
        parameters = parameters | {"target_s": target_latency_s}
        if "target_batch_s" in registry.defaults(policy):
            parameters = {"target_batch_s": target_latency_s} | parameters
    return registry.policy(policy, **parameters)
