"""What a live scheduler is started with, checked before it touches a query."""

from __future__ import annotations

from typing import Any

from laneshift.errors import InputError
from laneshift.inputcheck import number, whole
from laneshift.scheduler import registry
from laneshift.scheduler.policies.base import Policy


def check_executors(policy: Policy[Any], most: int | None) -> None:
    """Refuse fewer than no executors, and executors on demand for a policy that cannot use them."""
    if most is None:
        return
    whole("max_executors", most, low=0, high=10_000, unit="executors")
    if most and not policy.places:
        placing = [name for name in registry.names() if registry.policy_class(name).places]
        raise InputError(
            "max_executors",
            most,
            f"0 or None for the policy {policy.name}, which gives no lanes to other executors",
            f"Those that do: {', '.join(placing)}.",
        )


def check_turns(interval_s: float, cores: int | None = None) -> None:
    """Refuse turns less than 0.1 s or more than an hour apart, and fewer than one core."""
    number("interval", interval_s, low=0.1, high=3600.0, unit="s")
    if cores is not None:
        whole("cores", cores, low=1, unit="cores")


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
