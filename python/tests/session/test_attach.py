"""laneshift.attach and the gateway to the JVM, with a session that is not there."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest
from google.protobuf.message import Message

import laneshift
from laneshift.plugin.gateway import ENTRY_CLASS, Py4jGateway
from laneshift.plugin.v1 import control_pb2 as pb
from plugin.fake import FakeGateway
from session.transports import TOKEN, Connected, serving


class JavaPackage:
    """As py4j's: any name is found, nothing can be called."""

    def __getattr__(self, name: str) -> Any:
        return JavaPackage()


class JavaClass:
    """As py4j's: static methods that answer from a table, ``ask`` by the method that is asked."""

    def __init__(self, answers: dict[str, Any]) -> None:
        self.answers = answers

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: Any) -> Any:
            answer = self.answers[arguments[0] if name == "ask" else name]
            if isinstance(answer, Exception):
                raise answer
            return answer

        return call


class Namespace:
    def __init__(self, **names: Any) -> None:
        self.__dict__.update(names)


def session(entry: Any, *, plugins: str | None = None, stopped: bool = False) -> Any:
    found = entry
    for name in reversed(ENTRY_CLASS.split(".")):
        found = Namespace(**{name: found})
    conf = Namespace(get=lambda key, default: plugins or default)
    context = Namespace(_jsc=None if stopped else object(), getConf=lambda: conf)
    return Namespace(_jvm=found, sparkContext=context)


def packed(answer: pb.Answer) -> str:
    return b64encode(answer.SerializeToString()).decode()


def answer(reply: Message) -> str:
    return packed(pb.Answer(reply=reply.SerializeToString()))


def answers(**more: Any) -> dict[str, Any]:
    return {
        "version": laneshift.__version__,
        "Snapshot": answer(pb.SnapshotReply(version=laneshift.__version__)),
        "Handoffs": answer(pb.HandoffsReply()),
        **more,
    }


def test_attach() -> None:
    app = laneshift.attach(session(JavaClass(answers())))
    assert app.snapshot().queries == ()
    assert app.handoffs() == ()


@pytest.mark.parametrize("spark", [None, 5, object()])
def test_no_session(spark: Any) -> None:
    with pytest.raises(laneshift.ArgumentError, match="expected a SparkSession") as caught:
        laneshift.attach(spark)
    assert type(spark).__name__ in str(caught.value)


@pytest.mark.parametrize("spark", [5, Connected(("127.0.0.1", "1", TOKEN))])
def test_a_checkpoint_needs_a_classic_session(spark: Any) -> None:
    with pytest.raises(laneshift.ArgumentError, match="expected a SparkSession"):
        laneshift.rescale_checkpoint(spark, "/checkpoints/orders", 4)


def test_a_spark_connect_session() -> None:
    with serving(FakeGateway()) as address:
        port = address.rpartition(":")[2]
        for listens in ("127.0.0.1", "0.0.0.0", "::"):
            spark: Any = Connected((listens, port, TOKEN))
            with laneshift.attach(spark) as app:
                assert app.query("running").set_lanes(2, partition=0).applied == "now"
        nobodys: Any = Connected(("127.0.0.1", port, TOKEN[::-1]))
        with pytest.raises(laneshift.SessionError, match="lets nobody in"):
            laneshift.attach(nobodys)
        with laneshift.attach(nobodys, TOKEN) as app:  # as the operator
            assert app.snapshot().queries


@pytest.mark.parametrize(
    ("problem", "condition", "words"),
    [
        ("", "NO_CONTROL", r"spark\.sql\.laneshift\.control\.port=0"),
        (
            "[UNRESOLVABLE_TABLE_VALUED_FUNCTION] no laneshift_control here",
            "NO_CONTROL",
            "Connect server",
        ),
        ("[NO_ACTIVE_SESSION] nothing there", "SESSION_STOPPED", "NO_ACTIVE_SESSION"),
    ],
)
def test_a_connect_session_without_control_service(
    problem: str, condition: str, words: str
) -> None:
    spark: Any = Connected(problem=problem)
    with pytest.raises(laneshift.SessionError, match=words) as caught:
        laneshift.attach(spark)
    assert caught.value.condition == f"LANESHIFT_{condition}"


def test_a_stopped_session() -> None:
    with pytest.raises(laneshift.SessionError, match="has stopped"):
        laneshift.attach(session(JavaClass(answers()), stopped=True))


@pytest.mark.parametrize("plugins", [None, "a.B"])
def test_a_session_without_the_plugin(plugins: str | None) -> None:
    with pytest.raises(laneshift.SessionError, match=r"laneshift\.configure") as caught:
        laneshift.attach(session(JavaPackage(), plugins=plugins))
    assert caught.value.condition == "LANESHIFT_NOT_LOADED"
    assert (plugins or "not set") in str(caught.value)


def test_a_class_path_with_the_jar_but_no_plugin() -> None:
    refusal = pb.Failure(condition="LANESHIFT_NOT_LOADED", message="set spark.plugins")
    entry = JavaClass(answers(Snapshot=packed(pb.Answer(failure=refusal))))
    with pytest.raises(laneshift.SessionError, match=r"set spark\.plugins"):
        laneshift.attach(session(entry))


def test_a_jar_of_another_version() -> None:
    with pytest.raises(laneshift.SessionError, match=r"laneshift 9\.9"):
        laneshift.attach(session(JavaClass(answers(version="9.9"))))


def test_a_session_that_stops_later() -> None:
    spark = session(JavaClass(answers()))
    app = laneshift.attach(spark)
    spark.sparkContext._jsc = None
    with pytest.raises(laneshift.SessionError, match="attach") as caught:
        app.snapshot()
    assert caught.value.condition == "LANESHIFT_SESSION_STOPPED"


def test_a_jvm_that_is_gone() -> None:
    from py4j.protocol import Py4JNetworkError

    gateway = Py4jGateway(session(JavaClass({"version": Py4JNetworkError("gone")})))
    with pytest.raises(laneshift.SessionError, match="has stopped"):
        gateway.version()


def test_a_method_that_the_jar_does_not_have() -> None:
    from py4j.protocol import Py4JError

    missing = Py4JError("LaneshiftGateway.ask does not exist in the JVM")
    gateway = Py4jGateway(session(JavaClass({"Handoffs": missing})))
    with pytest.raises(laneshift.SessionError, match="does not exist"):
        gateway.handoffs("", 1)


@pytest.mark.parametrize("said", ["", "<html>", "{}", "/w==", None])
def test_an_answer_that_is_no_envelope(said: Any) -> None:
    gateway = Py4jGateway(session(JavaClass(answers(Snapshot=said))))
    with pytest.raises(laneshift.SessionError) as caught:
        gateway.snapshot()
    assert caught.value.condition == "LANESHIFT_BAD_REPLY"


def test_a_method_is_looked_up_once() -> None:
    looked_up: list[str] = []

    class Asked(JavaClass):
        """py4j asks the JVM each time: a round trip."""

        def __getattr__(self, name: str) -> Any:
            looked_up.append(name)
            return super().__getattr__(name)

    Asked.__name__ = "JavaClass"
    gateway = Py4jGateway(session(Asked(answers())))
    for _ in range(3):
        gateway.snapshot()
        gateway.version()
    assert (looked_up.count("ask"), looked_up.count("version")) == (1, 1)
