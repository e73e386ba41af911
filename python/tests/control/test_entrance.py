"""Who gets in, over TCP and TLS, and what those hear who do not."""

from __future__ import annotations

import datetime
import os
import socket
import threading
from collections.abc import Iterator
from concurrent import futures
from contextlib import suppress
from pathlib import Path
from typing import Any

import grpc
import pytest
import trustme

import laneshift
from laneshift.control import client
from laneshift.control.address import Address
from laneshift.control.client import ControlClient
from laneshift.control.failures import failure
from laneshift.control.protocol import SCHEME, TOKEN_KEY
from laneshift.control.settings import ControlSettings, ServerTls
from laneshift.control.tokens import Tokens, client_token, kept, signed
from laneshift.errors import InputError, SessionError
from laneshift.plugin.v1 import control_pb2 as pb
from plugin.fake import FakeGateway
from session.transports import TENANT_KEY, TOKEN, another_service, serving, settings


@pytest.fixture
def address() -> Iterator[str]:
    with serving(FakeGateway()) as found:
        yield found


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class TestTokens:
    def test_whose_they_are(self) -> None:
        tokens = Tokens(TOKEN, TENANT_KEY)
        operator, tenant = tokens.caller(TOKEN), tokens.caller(f"t1.{sign('t1')}")
        assert operator is not None and operator.tenant is None
        assert tenant is not None and tenant.tenant == "t1"
        for wrong in (
            "",
            "x",
            TOKEN[:-1],
            TOKEN + ".",
            f"t2.{sign('t1')}",
            f".{sign('')}",
            "é\ud800",
        ):
            assert tokens.caller(wrong) is None
        assert Tokens(TOKEN).caller(f"t1.{signed(b'', 't1')}") is None

    def test_a_generated_one_is_its_owners_and_stays(self, tmp_path: Path) -> None:
        file = tmp_path / "new" / "token"
        token = kept(file)
        assert len(token) == 43 and kept(file) == token
        assert file.stat().st_mode & 0o777 == 0o600
        assert file.parent.stat().st_mode & 0o777 == 0o700
        file.chmod(0o640)
        with pytest.raises(InputError, match=f"mode 640.*chmod 600 {file}"):
            kept(file)

    def test_another_users_file_is_none(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        file = tmp_path / "token"
        token = kept(file)
        user = os.geteuid()
        monkeypatch.setattr(os, "geteuid", lambda: user + 1)
        with pytest.raises(
            InputError, match=f"a file of user {user}', expected one of user {user + 1}"
        ) as no:
            kept(file)
        assert token not in str(no.value)

    @pytest.mark.parametrize(
        "text", ["", "short", "with spaces in its middle", "ü" * 20, "x" * 600]
    )
    def test_what_is_none(self, tmp_path: Path, text: str) -> None:
        file = tmp_path / "token"
        file.write_text(text)
        file.chmod(0o600)
        with pytest.raises(InputError, match="16 to 512 printable"):
            kept(file)
        with pytest.raises(InputError, match="16 to 512 printable") as caught:
            client_token(text)
        assert not text or text not in str(caught.value)

    def test_a_client_has_one_by_file_or_environment(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with pytest.raises(InputError, match=r"found 'none'.*LANESHIFT_TOKEN.*driver's log"):
            client_token()
        file = tmp_path / "token"
        file.write_text(TOKEN + "\n")
        assert client_token(file=file) == TOKEN
        monkeypatch.setenv("LANESHIFT_TOKEN_FILE", str(file))
        assert client_token() == TOKEN
        monkeypatch.setenv("LANESHIFT_TOKEN", "another-one-of-these")
        assert client_token() == "another-one-of-these"
        with pytest.raises(InputError, match="one of them"):
            client_token(TOKEN, file)
        with pytest.raises(InputError, match="No such file"):
            client_token(file=tmp_path / "nowhere")


def sign(tenant: str) -> str:
    return signed(TENANT_KEY.encode(), tenant)


class Unavailable(grpc.RpcError):
    """The end of a call, as a gRPC that is to come may say it."""

    def code(self) -> grpc.StatusCode:
        return grpc.StatusCode.UNAVAILABLE

    def details(self) -> str:
        return "in the words of a later version"

    def trailing_metadata(self) -> tuple[()]:
        return ()


grpc.Call.register(Unavailable)


class TestRefusals:
    def test_a_wrong_token_is_refused_and_told_once(self) -> None:
        said: list[str] = []
        with serving(FakeGateway(), tell=said.append) as address:
            for _ in range(3):
                with pytest.raises(
                    SessionError, match="lets nobody in without its token"
                ) as caught:
                    laneshift.attach(address, "not-the-token-at-all")
            assert caught.value.condition == "LANESHIFT_CONTROL_REFUSED"
            assert address in str(caught.value)
        (line,) = said
        assert "control: refused ipv4:127.0.0.1:" in line and "token is not its own" in line

    def test_a_call_without_a_token_or_of_no_method(self, address: str) -> None:
        with grpc.insecure_channel(address) as channel:
            watch = pb.WatchSnapshotsRequest(interval_s=1).SerializeToString()
            newest = pb.DecisionsRequest(limit=1).SerializeToString()
            calls: list[Any] = [
                lambda: channel.unary_unary(f"{client.SERVICE}Snapshot")(b""),
                lambda: list(channel.unary_stream(f"{client.SERVICE}WatchSnapshots")(watch)),
                lambda: list(channel.unary_stream(f"{client.SERVICE}Decisions")(newest)),
                lambda: channel.unary_unary("/laneshift.control.v1.Control/Nothing")(b"x"),
                lambda: channel.unary_unary("/a/b")(b"x", metadata=((TOKEN_KEY, TOKEN),)),
            ]
            for call in calls:
                with pytest.raises(grpc.RpcError) as caught:
                    call()
                assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED

    def test_who_sends_no_message_is_refused_all_the_same(self, address: str) -> None:
        never = threading.Event()

        def nothing() -> Iterator[bytes]:
            never.wait()
            yield b""

        with grpc.insecure_channel(address) as channel:
            call = channel.stream_unary(f"{client.SERVICE}Snapshot")
            with pytest.raises(grpc.RpcError) as caught:
                call(nothing(), timeout=60.0)
            never.set()
        assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED

    @pytest.mark.parametrize("text", ["", "localhost", "localhost:", ":80", "a:b", "h:0", "h:70000",
                                      "http://h:1", "me@h:1", "h 1:1"])  # fmt: skip
    def test_what_is_no_address(self, text: str) -> None:
        with pytest.raises(InputError, match="HOST:PORT, such as"):
            laneshift.attach(text, TOKEN)

    @pytest.mark.parametrize("text", ["h:1", " driver.x:15010 ", "[::1]:80", "127.0.0.1:65535"])
    def test_what_is_an_address(self, text: str) -> None:
        assert str(Address.of(text)) == text.strip()

    @pytest.mark.parametrize(
        ("where", "words"),
        [
            (f"127.0.0.1:{free_port()}", "nobody listens at that port. Check .*control.port"),
            ("no-such-host.invalid:1", "no host of that name. Correct the name"),
        ],
    )
    def test_nobody_answers(self, where: str, words: str) -> None:
        with pytest.raises(
            SessionError, match=f"No control service answers at .*{words}"
        ) as caught:
            laneshift.attach(where, TOKEN)
        assert caught.value.condition == "LANESHIFT_CONTROL_UNREACHABLE"
        assert where in str(caught.value)

    @pytest.mark.parametrize(
        ("answer", "words"),
        [
            (b"HTTP/1.0 400 Bad Request\r\n\r\n", "no such service. Take the port of"),
            (b"", "listens there, and says nothing. Check .*control.port"),
        ],
    )
    def test_something_else_listens(
        self, answer: bytes, words: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        held = []

        def accept(listening: socket.socket) -> None:
            with suppress(OSError):
                while True:
                    held.append(listening.accept()[0])
                    held[-1].sendall(answer)

        quick = (("grpc.min_reconnect_backoff_ms", 500), ("grpc.initial_reconnect_backoff_ms", 500))
        monkeypatch.setattr("laneshift.control.client.OPTIONS", (*client.OPTIONS, *quick))
        with socket.create_server(("127.0.0.1", 0)) as listening:
            threading.Thread(target=accept, args=(listening,), daemon=True).start()
            with pytest.raises(SessionError, match=words) as caught:
                laneshift.attach(f"127.0.0.1:{listening.getsockname()[1]}", TOKEN)
            assert caught.value.condition == "LANESHIFT_CONTROL_UNREACHABLE"
            listening.shutdown(socket.SHUT_RDWR)
        for each in held:
            each.close()

    def test_what_is_wrong_does_not_hang_on_the_words_of_grpc(self) -> None:
        found = failure(Unavailable(), "Hello", Address("127.0.0.1", free_port()))
        assert "nobody listens at that port. Check that" in str(found)
        with serving(FakeGateway()) as address:  # that is there again
            found = failure(Unavailable(), "Hello", Address.of(address))
        assert "in the words of a later version. Check that" in str(found)

    def test_somebody_else_answers(self) -> None:
        server = grpc.server(futures.ThreadPoolExecutor(1))
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        with pytest.raises(SessionError, match=r"pip install laneshift==") as caught:
            laneshift.attach(f"127.0.0.1:{port}", TOKEN)
        assert caught.value.condition == "LANESHIFT_CONTROL_VERSION"
        server.stop(None).wait()

    def test_an_older_one_answers(self) -> None:
        older = another_service(Hello=lambda _: pb.HelloReply(version="0.0.1", revision=0))
        with (
            older as address,
            pytest.raises(SessionError, match=r"laneshift 0\.0\.1, revision 0") as caught,
        ):
            laneshift.attach(address, TOKEN)
        assert caught.value.condition == "LANESHIFT_CONTROL_VERSION"
        assert laneshift.__version__ in str(caught.value)

    def test_a_newer_one_answers(self, address: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("laneshift.control.service.REVISION", 99)
        monkeypatch.setattr("laneshift.control.service.__version__", "9.9.9")
        with laneshift.attach(address, TOKEN) as app:
            assert app.version == "9.9.9" and app.snapshot().queries

    def test_a_service_that_goes_away(self) -> None:
        with serving(FakeGateway()) as address:
            app = laneshift.attach(address, TOKEN)
            stream = app.watch(0.1)
            next(stream)
        for call in (app.snapshot, lambda: next(stream)):
            with pytest.raises(SessionError, match=r"LANESHIFT_CONTROL_UN|LANESHIFT_SESSION_STO"):
                call()
        app.close()
        with pytest.raises(SessionError, match="closed"):
            app.snapshot()

    def test_a_plugin_that_fails(self) -> None:
        class Broken(FakeGateway):
            def on_limit_source(self, *_: Any) -> Any:
                raise ZeroDivisionError("by chance")

        said: list[str] = []
        with (
            serving(Broken(), tell=said.append) as address,
            laneshift.attach(address, TOKEN) as app,
            pytest.raises(SessionError, match=r"LimitSource has failed .* by chance"),
        ):
            app.query("running").limit_source(1, duration=1)
        assert any("LimitSource" in line and "by chance" in line for line in said)

    def test_without_grpc(self, monkeypatch: pytest.MonkeyPatch) -> None:
        import sys

        monkeypatch.delitem(sys.modules, "laneshift.control.client", raising=False)
        monkeypatch.setitem(sys.modules, "grpc", None)
        with pytest.raises(SessionError, match=r"wheel with \[control\]"):
            laneshift.attach("h:1", TOKEN)


class Authority:
    """Certificates as files."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._ca = trustme.CA()
        self.ca = str(folder / "ca.pem")
        self._ca.cert_pem.write_to_path(self.ca)

    def pair(self, name: str, *hosts: str, **more: Any) -> tuple[str, str]:
        made = self._ca.issue_cert(*hosts, **more)
        cert, key = self._folder / f"{name}.pem", self._folder / f"{name}.key"
        cert.write_bytes(b"".join(c.bytes() for c in made.cert_chain_pems))
        made.private_key_pem.write_to_path(str(key))
        return str(cert), str(key)

    def server(self, *hosts: str, client_ca: str | None = None, **more: Any) -> ServerTls:
        cert, key = self.pair("server", *hosts, **more)
        return ServerTls(key, cert, client_ca)


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


class TestTls:
    def test_both_sides_show_certificates(self, authority: Authority, tmp_path: Path) -> None:
        tls = authority.server("127.0.0.1", client_ca=authority.ca)
        cert, key = authority.pair("client", "operator@example.com")
        with serving(FakeGateway(), settings(tls)) as address:
            with laneshift.attach(address, TOKEN, ca=authority.ca, cert=cert, key=key) as app:
                assert app.query("running").set_lanes(3, partition=0).applied == "now"
            with pytest.raises(SessionError, match="LANESHIFT_CONTROL_REFUSED"):
                laneshift.attach(address, TOKEN[::-1], ca=authority.ca, cert=cert, key=key)
            with pytest.raises(SessionError, match="a certificate only: give cert and key"):
                laneshift.attach(address, TOKEN, ca=authority.ca)
            (tmp_path / "other").mkdir()
            stranger = Authority(tmp_path / "other")
            past = datetime.datetime.now(datetime.UTC) - datetime.timedelta(hours=1)
            for pair in (
                stranger.pair("client", "operator@example.com"),
                authority.pair("expired", "operator@example.com", not_after=past),
            ):
                shown = dict(zip(("cert", "key"), pair, strict=True))
                with pytest.raises(SessionError, match=r"clientCa has signed it.* not expired"):
                    laneshift.attach(address, TOKEN, ca=authority.ca, **shown)
            with laneshift.attach(address, TOKEN, ca=authority.ca, cert=cert, key=key) as app:
                assert app.snapshot().queries

    def test_a_certificate_is_renewed_while_it_is_shown(
        self, authority: Authority, tmp_path: Path
    ) -> None:
        said: list[str] = []
        past = datetime.datetime.now(datetime.UTC) - datetime.timedelta(hours=1)
        tls = authority.server("127.0.0.1", not_after=past)
        with serving(FakeGateway(), settings(tls), tell=said.append) as at:
            with pytest.raises(SessionError, match="certificate has expired"):
                laneshift.attach(at, TOKEN, ca=authority.ca)
            cert, key = authority.pair("new", "127.0.0.1")
            Path(cert).replace(tls.certificate)  # its key is still on its way
            with pytest.raises(SessionError, match="certificate has expired"):
                laneshift.attach(at, TOKEN, ca=authority.ca)
            Path(key).replace(tls.key)
            with laneshift.attach(at, TOKEN, ca=authority.ca) as app:
                assert app.snapshot().queries
        before, new = said
        assert "certificate of before is shown on" in before and "new certificate" in new

    def test_an_expired_certificate(self, authority: Authority) -> None:
        past = datetime.datetime.now(datetime.UTC) - datetime.timedelta(hours=1)
        with (
            serving(FakeGateway(), settings(authority.server("127.0.0.1", not_after=past))) as at,
            pytest.raises(SessionError, match=r"certificate has expired\. Renew the cert"),
        ):
            laneshift.attach(at, TOKEN, ca=authority.ca)

    def test_a_certificate_of_another_authority_or_host(
        self, authority: Authority, tmp_path: Path
    ) -> None:
        (tmp_path / "other").mkdir()
        stranger = Authority(tmp_path / "other")
        with (
            serving(FakeGateway(), settings(authority.server("127.0.0.1"))) as at,
            pytest.raises(SessionError, match="Give the CA that has signed"),
        ):
            laneshift.attach(at, TOKEN, ca=stranger.ca)
        with (
            serving(FakeGateway(), settings(authority.server("elsewhere.example.com"))) as at,
            pytest.raises(SessionError, match="an address that its certificate names"),
        ):
            laneshift.attach(at, TOKEN, ca=authority.ca)

    def test_one_side_speaks_tls_only(self, authority: Authority, address: str) -> None:
        with pytest.raises(SessionError, match=r"answers without TLS\. Leave out ca, cert"):
            laneshift.attach(address, TOKEN, ca=authority.ca)
        with (
            serving(FakeGateway(), settings(authority.server("127.0.0.1"))) as at,
            pytest.raises(SessionError, match=r"it speaks TLS only\. Give the CA"),
        ):
            laneshift.attach(at, TOKEN)

    def test_files_that_are_none(self, authority: Authority, tmp_path: Path) -> None:
        cert, key = authority.pair("client", "a@example.com")
        text = tmp_path / "text"
        text.write_text("no certificate")
        for wrong, words in (
            ({"ca": tmp_path / "nowhere"}, "ca: found .*nowhere .No such file"),
            ({"ca": text}, "a PEM file: -----BEGIN"),
            ({"ca": authority.ca, "cert": cert}, "key: found 'nothing'.* needs its key"),
            ({"key": key}, "cert: found 'nothing'"),
        ):
            with pytest.raises(InputError, match=words):
                laneshift.attach("127.0.0.1:1", TOKEN, **wrong)

    def test_settings_of_the_server(self, authority: Authority, tmp_path: Path) -> None:
        cert, key = authority.pair("server", "h")
        said = {"port": 0, "address": "127.0.0.1", "token_file": str(tmp_path / "token")}
        whole = ControlSettings.of(said | {"tls_certificate": cert, "tls_key": key})
        assert whole.tls is not None and whole.tls.client_ca is None
        for wrong, words in (
            ({"tls_certificate": cert}, r"tls\.key: found 'nothing'"),
            ({"tls_client_ca": cert}, r"tls\.certificate: found 'nothing'"),
            ({"tls_certificate": cert, "tls_key": "/nowhere"}, r"tls\.key: found '/nowhere .No su"),
            ({"token": "x" * 20}, "a token and a token file"),
            ({"token_file": "", "token": "short"}, r"control\.token: .* 16 to 512"),
            ({"token_file": "/proc/1/nothing/token"}, "token file /proc/1/nothing/token"),
        ):
            with pytest.raises(InputError, match=words):
                ControlSettings.of(said | wrong)

    @pytest.mark.parametrize(
        ("address", "plain"),
        [("127.0.0.1", False), ("localhost", False), ("[::1]", False), ("0.0.0.0", True),
         ("10.0.0.1", True), ("driver.example.com", True)],
    )  # fmt: skip
    def test_an_address_where_tokens_are_read_on_their_way(self, address: str, plain: bool) -> None:
        made = ControlSettings(1, address, TOKEN, Path("x"), False, None, "", False)
        assert made.is_open_and_plain is plain


def test_the_token_never_shows(address: str) -> None:
    with laneshift.attach(address, TOKEN) as app:
        assert TOKEN not in repr(app)
    client = ControlClient(Address.of(address), TOKEN)
    assert TOKEN not in repr(client) and SCHEME not in repr(client)
    assert os.environ.get("LANESHIFT_TOKEN") is None
    client.close()
