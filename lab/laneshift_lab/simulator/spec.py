"""What is simulated: cluster, operators, and the numbers of the engine itself."""

from __future__ import annotations

from dataclasses import dataclass, field

from laneshift import inputcheck
from laneshift.contract.ids import NodeId, OperatorId
from laneshift.errors import InputError
from laneshift_lab.simulator.workload import Keys

SPLITS = ("merge", "broadcast")
PARADIGMS = ("static", "executor-centric", "resource-centric")
OVERFLOW = ("block", "lose")


@dataclass(frozen=True)
class Cluster:
    """nodes: how many; cores: per node; nic_bytes_s: full-duplex link of each node (bytes/s).

    Default: the paper's testbed, 32 nodes, 8 cores, 1 Gbps [S].
    """

    nodes: int = 32
    cores: int = 8
    nic_bytes_s: float = 125e6

    def __post_init__(self) -> None:
        inputcheck.whole("nodes", self.nodes, "Give at least one node.", low=1)
        inputcheck.whole("cores", self.cores, "Give at least one core.", low=1)
        inputcheck.number(
            "nic_bytes_s", self.nic_bytes_s, "1 Gbps is 125e6.", low=0.0, low_open=True
        )

    @property
    def names(self) -> tuple[NodeId, ...]:
        """Node ids, n0, n1, ..."""
        return tuple(NodeId(f"n{i}") for i in range(self.nodes))


@dataclass(frozen=True)
class Split:
    """What a split key costs (Data Distribution, 2017), for one operator.

    slots: parts of split keys, beyond the first of each key, that one partition has room for.
    how: "merge", an aggregation: a row goes to one part, and every ``tick_s`` all parts but the
    first send a partial result to the first, which merges it in ``merge_s`` CPU seconds.
    "broadcast", a join: a row is stored by one part and probed on all; each part scans its share,
    so the probing is divided, and each further copy costs ``copy_s`` CPU seconds and its bytes.
    """

    slots: int = 16
    how: str = "merge"
    tick_s: float = 1.0
    merge_s: float = 1e-4
    copy_s: float = 1e-4

    def __post_init__(self) -> None:
        inputcheck.whole("slots", self.slots, "16 part two keys nine ways.", low=1, high=4096)
        inputcheck.choice("how", self.how, SPLITS, "Aggregations merge, joins broadcast.")
        inputcheck.number("tick_s", self.tick_s, "Seconds.", low=0.0, low_open=True)
        inputcheck.number("merge_s", self.merge_s, "CPU seconds per partial.", low=0.0)
        inputcheck.number("copy_s", self.copy_s, "CPU seconds per copy.", low=0.0)

    def work(self, ways: int, cost_s: float) -> float:
        """CPU per row of a key split ``ways`` ways, as a multiple of ``cost_s``; merges apart."""
        return 1.0 + (ways - 1) * self.copy_s / cost_s if self.how == "broadcast" else 1.0

    def copies(self, ways: int) -> int:
        """Lanes that a row is sent to."""
        return ways if self.how == "broadcast" else 1

    def merging(self, ways: int) -> float:
        """CPU seconds per second that the first part spends on the others' partials."""
        return (ways - 1) * self.merge_s / self.tick_s if self.how == "merge" else 0.0


@dataclass(frozen=True)
class Operator:
    """One operator of the DAG.

    name: unique. partitions: y; shards: z per partition. cost_s: CPU seconds per row.
    cost_cv2: squared coefficient of variation of the cost (0 fixed, 1 exponential).
    row_bytes, out_bytes: size of an input and of an output row. selectivity: rows out per row in.
    state_bytes: per shard. lane_queue_rows: rows that a lane's queue holds before it pushes back or
    loses. upstream: names of the operators that feed it.
    source_rows: rows that it gets from the source itself per row that the source emits; None: 1
    without upstream, else 0. keys: its own key distribution; None: the scenario's.
    split: what split keys cost; None: keys stay whole.
    """

    name: str
    partitions: int = 32
    shards: int = 256
    cost_s: float = 1e-3
    cost_cv2: float = 0.5
    row_bytes: float = 128.0
    out_bytes: float = 128.0
    selectivity: float = 1.0
    state_bytes: float = 32 * 1024.0
    lane_queue_rows: float = 128.0
    upstream: tuple[str, ...] = ()
    source_rows: float | None = None
    keys: Keys | None = None
    split: Split | None = None

    def __post_init__(self) -> None:
        of = f"of operator {self.name}"
        inputcheck.whole(f"partitions {of}", self.partitions, "At least one.", low=1)
        inputcheck.whole(f"shards {of}", self.shards, "256 to 1024 is good.", low=1)
        for name in ("cost_s", "lane_queue_rows"):
            inputcheck.number(
                f"{name} {of}", getattr(self, name), "Must be positive.", low=0.0, low_open=True
            )
        for name in ("cost_cv2", "row_bytes", "out_bytes", "selectivity", "state_bytes"):
            inputcheck.number(f"{name} {of}", getattr(self, name), "Must not be negative.", low=0.0)
        if self.source_rows is not None:
            low_open = not self.upstream
            inputcheck.number(
                f"source_rows {of}", self.source_rows, "Without upstream it needs rows.",
                low=0.0, low_open=low_open,
            )  # fmt: skip

    @property
    def slots(self) -> int:
        """Shards of a partition and the parts of split keys that it has room for."""
        return self.shards + (self.split.slots if self.split else 0)

    @property
    def from_source(self) -> float:
        """``source_rows`` with its default filled in."""
        if self.source_rows is None:
            return 0.0 if self.upstream else 1.0
        return self.source_rows

    @property
    def id(self) -> OperatorId:
        """Its id in cluster loads."""
        return OperatorId(self.name)


@dataclass(frozen=True)
class Fault:
    """Node ``node`` (index) fails at ``time_s`` and is back ``down_s`` later."""

    time_s: float
    node: int
    down_s: float = 30.0


@dataclass(frozen=True)
class Engine:
    """How it runs.

    step_s: fluid step. paradigm: which moves and hops exist. overflow: "block" (back-pressure) or
    "lose". policy_s, balance_s: periods of the policy and of the lanes' balancer; actuation_s:
    delay from a decision to its effect. theta: balance threshold [XK]. min_gain: see the balancer.
    handoff_s: control messages of one handoff [S: about 2 ms sync]. max_handoffs: in flight per
    partition. flush_s: flush period of remote lanes [S: 10 s]; checkpoint_s and restart_s: outer
    checkpointing, for the loss of a partition's home [A].
    RC [A]: one global synchronisation costs rc_sync_s + rc_sync_per_upstream_s * upstream
    executors on top of draining, and carries rc_moves_per_sync shards (1: as the prototype [XP]).
    wakes: whether partitions that become pressed have the policy decide before its period is over,
    as with running queries. measure_noise: Poisson noise on measured shard loads. paused_rows: rows
    held per moving shard.
    """

    step_s: float = 0.02
    paradigm: str = "executor-centric"
    overflow: str = "block"
    policy_s: float = 2.0
    balance_s: float = 1.0
    actuation_s: float = 0.1
    theta: float = 1.2
    min_gain: float = 0.01
    handoff_s: float = 1e-3
    max_handoffs: int = 64
    flush_s: float = 10.0
    checkpoint_s: float = 30.0
    restart_s: float = 10.0
    rc_sync_s: float = 0.2
    rc_sync_per_upstream_s: float = 2e-3
    rc_moves_per_sync: int = 1
    rc_transfer_s: float = 2e-3
    measure_noise: bool = True
    window_s: float = 1.0
    wakes: bool = False
    faults: tuple[Fault, ...] = field(default=())

    def __post_init__(self) -> None:
        inputcheck.choice("paradigm", self.paradigm, PARADIGMS, "Pick one.")
        inputcheck.choice("overflow", self.overflow, OVERFLOW, "Pick one.")
        for name in ("step_s", "policy_s", "balance_s", "window_s", "flush_s", "checkpoint_s"):
            inputcheck.number(name, getattr(self, name), "Seconds.", low=0.0, low_open=True)
        for name in (
            "actuation_s", "handoff_s", "rc_sync_s", "rc_sync_per_upstream_s", "rc_transfer_s",
            "min_gain", "restart_s",
        ):  # fmt: skip
            inputcheck.number(name, getattr(self, name), "Must not be negative.", low=0.0)
        inputcheck.number("theta", self.theta, "1.2 is usual.", low=1.0)
        inputcheck.whole("max_handoffs", self.max_handoffs, "At least one.", low=1)
        inputcheck.whole("rc_moves_per_sync", self.rc_moves_per_sync, "At least one.", low=1)


def check_dag(cluster: Cluster, operators: tuple[Operator, ...], engine: Engine) -> None:
    """Names unique, upstream known and earlier in the list, queues long enough for the step."""
    if not operators:
        raise InputError("operators", 0, "at least one", "Describe the topology.")
    known: set[str] = set()
    for op in operators:
        if op.name in known:
            raise InputError("operators", op.name, "names that occur once", "Rename one.")
        for up in op.upstream:
            inputcheck.choice(
                f"upstream of {op.name}", up, known, "List operators upstream first; no cycles."
            )
        known.add(op.name)
        least = 2.0 * engine.step_s / op.cost_s
        if op.lane_queue_rows < least:
            raise InputError(
                f"lane_queue_rows of {op.name}", op.lane_queue_rows,
                f"at least {least:g}, two steps of work", "Use a shorter step_s or longer queues.",
            )  # fmt: skip
    lanes = sum(op.partitions for op in operators)
    if lanes > cluster.nodes * cluster.cores:
        raise InputError(
            "partitions", lanes, f"at most {cluster.nodes * cluster.cores}, one core each",
            "Add nodes or use fewer partitions.",
        )  # fmt: skip
