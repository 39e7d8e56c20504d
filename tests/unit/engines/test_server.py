"""The engine `server` against servers of every kind, in process: answers, and ways to have none."""

from __future__ import annotations

import math
import re
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace as placed
from typing import Any

import msgspec
import pytest
from loopback_server import (
    SPEC,
    TWIN,
    FakeEngine,
    Handler,
    Server,
    dying,
    reply,
    saying,
    serving,
)
from msgspec.structs import replace

from matrix.engines import CAPABILITIES, Endpoint, Generation, Request
from matrix.engines.server import LACKS, ServerEngine
from matrix.errors import EngineError, HarnessError, UsageError, WorkerGone

KEY = "sk-0123456789"
REQUEST = Request([5, 6, 7], 9)


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as found:
        yield found


Connect = Callable[..., ServerEngine]


@pytest.fixture
def connect(monkeypatch: pytest.MonkeyPatch) -> Connect:
    def make(server: Server, **options: Any) -> ServerEngine:
        monkeypatch.setenv("LOOPBACK_KEY", KEY)
        for name, value in Endpoint(server.url, **options).env().items():
            monkeypatch.setenv(name, value)
        return ServerEngine()

    return make


@pytest.fixture
def engine(server: Server, connect: Connect) -> ServerEngine:
    """Connected and started."""
    found = connect(server)
    found.identify()
    found.start(SPEC)
    return found


def failed(engine: ServerEngine, *requests: Request) -> EngineError:
    """What the engine raised for the first of the requests."""
    raised = engine.generate(list(requests or (REQUEST,)))[0].error
    assert raised is not None
    return EngineError(raised.type_name, raised.text)


# --- who it is ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "name", "version"),
    [
        ("vllm", "vllm", "0.32.0+vllm"),
        ("sglang", "sglang", "0.5.23+sglang"),
        ("someone", "server", "unknown"),
    ],
)
def test_a_server_says_who_it_is(kind: str, name: str, version: str, connect: Connect) -> None:
    with serving(kind=kind) as server:
        identity = connect(server).identify()
    assert (identity.name, identity.version) == (name, version)
    assert identity.settings["main"]["url"] == server.url
    assert identity.lacks == LACKS
    assert set(LACKS) <= CAPABILITIES.keys()


def test_an_older_sglang_says_its_version_elsewhere(connect: Connect) -> None:
    with serving(kind="sglang") as server:
        server.answers["/server_info"] = saying(404)
        server.answers["/get_server_info"] = saying(200, '{"version": "0.5.9"}')
        assert connect(server).identify().version == "0.5.9+sglang"


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("0.33.0rc1", "0.33.0rc1+vllm"),
        ("0.33.0.dev7+g12ab", "0.33.0.dev7+g12ab.vllm"),
        ("main\u001b[31m", "unknown"),
        ("1" * 999, "unknown"),
        ("", "unknown"),
    ],
)
def test_a_version_that_is_one_can_be_compared(
    said: str, shown: str, server: Server, connect: Connect
) -> None:
    server.answers["/version"] = saying(200, msgspec.json.encode({"version": said}))
    assert connect(server).identify().version == shown


def test_nobody_there_is_left_to_the_start_to_say(server: Server, connect: Connect) -> None:
    engine = connect(placed(server, url="http://127.0.0.1:9"))
    assert engine.identify().version == "unknown"
    with pytest.raises(
        WorkerGone, match=r"GET http://127\.0\.0\.1:9/health: nobody answers"
    ) as got:
        engine.start(SPEC)
    assert got.value.outcome == "crash"


# --- the start ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("id", "root"),
    [(SPEC.served_as, None), (SPEC.target, None), ("alias", SPEC.target)],
)
def test_the_weights_are_known_by_their_name_or_folder(
    id: str, root: str | None, server: Server, connect: Connect
) -> None:
    body = msgspec.json.encode({"data": [{"id": "other"}, {"id": id, "root": root}]})
    server.answers["/v1/models"] = saying(200, body)
    engine = connect(server)
    assert engine.start(SPEC).lacks.keys() == {"planes"}
    engine.generate([REQUEST])
    assert server.asked[-1][2]["model"] == id


def test_of_the_real_model_there_is_no_reference(server: Server, connect: Connect) -> None:
    server.model = SPEC.hub_id
    why = connect(server).start(SPEC).lacks
    assert why["reference"] == f"the reference has no weights of {SPEC.hub_id}"


def test_another_model_is_one_clear_line(server: Server, connect: Connect) -> None:
    server.model = "fake@other-weights"
    with pytest.raises(HarnessError) as got:
        connect(server).start(SPEC)
    assert str(got.value) == (
        "another model is served: 'fake@other-weights'; want 'fake@fake'; "
        "`dflash-matrix canary serve-args` prints how to start it"
    )


def test_no_page_of_metrics_is_a_lack_unless_it_was_named(server: Server, connect: Connect) -> None:
    server.answers["/metrics"] = saying(404)
    assert "404" in connect(server).start(SPEC).lacks["counters"]
    with pytest.raises(HarnessError, match=r"^--metrics-url: HTTP 404"):
        connect(server, metrics_url=f"{server.url}/metrics").start(SPEC)


def test_a_page_of_something_else_counts_no_drafts(server: Server, connect: Connect) -> None:
    for page in ("<html>hello</html>", "", "# TYPE other counter\nother_total 3\n", 'x{a="'):
        server.answers["/metrics"] = saying(200, page)
        assert "no metrics page that counts drafts" in connect(server).start(SPEC).lacks["counters"]


def test_an_unwell_server_has_crashed(server: Server, connect: Connect) -> None:
    server.answers["/health"] = saying(503, "dead")
    with pytest.raises(WorkerGone, match=r"HTTP 503: GET .*/health: dead"):
        connect(server).start(SPEC)


def test_a_server_without_a_page_on_its_health_is_well(server: Server, connect: Connect) -> None:
    server.answers["/health"] = saying(404)
    assert connect(server).start(SPEC).lacks.keys() == {"planes"}


# --- generating --------------------------------------------------------------------------------


def test_tokens_and_counts_are_those_of_the_engine(server: Server, engine: ServerEngine) -> None:
    due = FakeEngine(ids=[1, 3, 5], capturing=True).generate([REQUEST])[0]
    got = engine.generate([REQUEST])[0]
    assert (got.tokens, got.finish, got.steps, got.error) == (due.tokens, "length", [], None)
    assert got.counted is not None
    assert got.counted.per_step == [step.accepted for step in due.steps]
    assert got.counted.drafted == sum(len(step.drafted) for step in due.steps)
    asked = server.asked[-1][2]
    assert asked["prompt"] == REQUEST.prompt
    assert (asked["max_tokens"], asked["temperature"], asked["ignore_eos"]) == (9, 0, True)


def test_sglang_is_asked_in_its_own_words(connect: Connect) -> None:
    with serving(kind="sglang") as server:
        engine = connect(server)
        assert "404" in engine.start(SPEC).lacks["counters"]
        got = engine.generate([replace(REQUEST, stop=[3])])[0]
        asked = server.asked[-1][2]
    due = FakeEngine(ids=[1, 3, 5], capturing=True).generate([replace(REQUEST, stop=[3])])[0]
    assert got.tokens == due.tokens
    assert got.counted is not None
    assert got.counted.per_step == sorted(step.accepted for step in due.steps)
    assert asked["input_ids"] == REQUEST.prompt
    assert asked["sampling_params"]["stop_token_ids"] == [3]


def test_an_older_sglang_counts_under_other_names(connect: Connect) -> None:
    said = {"spec_draft_token_num": 14, "spec_accept_histogram": [0, 1, 1]}
    with serving(kind="sglang") as server:
        engine = connect(server)
        engine.start(SPEC)
        body = msgspec.json.encode({"output_ids": [1, 2], "meta_info": said})
        server.answers["/generate"] = saying(200, body)
        counted = engine.generate([REQUEST])[0].counted
    assert counted is not None
    assert (counted.drafts, counted.drafted, counted.accepted) == (2, 14, 3)
    assert counted.accepted_at == [2, 1]


def test_an_sglang_that_does_not_speculate_counts_zero(connect: Connect) -> None:
    with serving(kind="sglang") as server:
        engine = connect(server)
        engine.start(SPEC)
        server.answers["/generate"] = saying(200, b'{"output_ids": [1, 2], "meta_info": {}}')
        counted = engine.generate([REQUEST])[0].counted
    assert counted is not None
    assert (counted.drafts, counted.drafted) == (0, 0)


def test_only_equal_salts_share_a_prefix(server: Server, engine: ServerEngine) -> None:
    salted = replace(REQUEST, salt="mine")
    engine.generate([REQUEST])
    engine.generate([REQUEST])
    engine.generate([salted])
    engine.generate([salted])
    salts = [body["cache_salt"] for path, _, body in server.asked if path == "/v1/completions"]
    assert len(set(salts)) == 3
    assert salts[2:] == ["mine", "mine"]


def test_requests_are_sent_at_once_and_answered_in_order(
    server: Server, engine: ServerEngine
) -> None:
    """Each waits for all the others to have arrived."""
    together = threading.Barrier(3, timeout=10)

    def answer(handler: Handler) -> None:
        body = next(body for _, headers, body in server.asked if headers == dict(handler.headers))
        together.wait()
        said = {"choices": [{"token_ids": [body["max_tokens"]]}]}
        reply(handler, 200, msgspec.json.encode(said))

    server.answers["/v1/completions"] = answer
    requests = [Request([1], most, salt=f"{most}") for most in (100, 2, 33)]
    tokens = [answer.tokens[0] for answer in engine.generate(requests)]
    assert sorted(tokens) == [2, 33, 100]


@pytest.mark.parametrize(
    ("states", "said"),
    [
        (None, "hidden_states is NoneType, want a list"),
        ("[]", "hidden_states is str, want a list"),
        ([[["a"]]], r"hidden_states\[0\]: could not convert"),
        ([[[1.0, 2.0], [3.0]]], r"hidden_states\[0\]: .*inhomogeneous"),
        ([[[[1.0]]]], r"hidden_states\[0\] has 3 dimensions"),
        ([[[1.0]], 2.0], r"hidden_states\[1\] has 0 dimensions"),
    ],
)
def test_planes_of_another_form_are_a_result(states: Any, said: str, connect: Connect) -> None:
    with serving(kind="sglang", captures=[1, 3, 5]) as server:
        engine = connect(server)
        assert "planes" not in engine.start(SPEC).lacks
        body = msgspec.json.encode({"output_ids": [1], "meta_info": {"hidden_states": states}})
        server.answers["/generate"] = saying(200, body)
        assert re.search(said, str(failed(engine)))


def test_planes_stand_at_their_positions(connect: Connect) -> None:
    states = [[[1.0, 2.0], [3.0, None]], [5.0, 6.0], [7.0, 8.0]]
    said = {"hidden_states": states, "cached_tokens": 32}
    with serving(kind="sglang", captures=[1, 3, 5]) as server:
        engine = connect(server)
        engine.start(SPEC)
        body = msgspec.json.encode({"output_ids": [1, 2, 3], "meta_info": said})
        server.answers["/generate"] = saying(200, body)
        got = engine.generate([REQUEST])[0]
    assert [(each.kind, each.position) for each in got.forwards] == [
        ("prefill", 32),
        ("verify", 34),
        ("verify", 35),
    ]
    assert [each.handed[0].shape for each in got.forwards] == [(2, 2), (1, 2), (1, 2)]
    assert math.isnan(got.forwards[0].handed[0].numpy()[1, 1]), "JSON has no NaN but null"
    assert [(step.position, step.drafted, step.accepted) for step in got.steps] == [
        (34, [], 0),
        (35, [], 0),
    ]


# --- counters ----------------------------------------------------------------------------------


def test_the_page_grows_by_what_was_generated(server: Server, engine: ServerEngine) -> None:
    before = engine.counters()
    answers = engine.generate([REQUEST, Request([9], 4)])
    after = engine.counters()
    assert after.drafts - before.drafts == sum(len(answer.counted.per_step) for answer in answers)  # type: ignore[union-attr,arg-type]
    assert (after.requests, after.tokens) == (2, 13)


def test_a_page_that_lags_is_waited_for(server: Server, engine: ServerEngine) -> None:
    """The page is written some time after the answer."""
    old = str(server.healthy("/metrics", None))
    late = [old, old, old]
    engine.generate([REQUEST])

    def answer(handler: Handler) -> None:
        reply(handler, 200, late.pop() if late else server.healthy("/metrics", None))

    server.answers["/metrics"] = answer
    assert engine.counters().requests == 1
    assert not late


# --- answers that are none ---------------------------------------------------------------------


def chunk_of_zeros(handler: Handler) -> None:
    """An answer that never ends."""
    handler.send_response(200)
    handler.end_headers()
    try:
        while True:
            handler.wfile.write(b"[" + b"0," * (1 << 19))
    except OSError:
        return


def no_http(handler: Handler) -> None:
    handler.wfile.write(b"\x00\xff garbage\r\n\r\n")


def ids(text: str) -> bytes:
    return f'{{"choices": [{{"token_ids": {text}}}]}}'.encode()


GARBAGE: dict[str, tuple[Callable[[Handler], None], str]] = {
    "HTML": (saying(200, "<html>It works!</html>"), r"BadAnswer: .*'<html>It works!</html>'"),
    "nothing": (saying(200, ""), "BadAnswer: .*truncated"),
    "truncated": (saying(200, '{"choices": [{"tok'), "BadAnswer: .*truncated"),
    "a list": (saying(200, "[]"), "Expected `object`, got `array`"),
    "words for ids": (saying(200, ids('["a"]')), r"Expected `int`, got `str` - at .*token_ids"),
    "broken ids": (saying(200, ids("[1.5]")), "BadAnswer"),
    "negative ids": (saying(200, ids("[-1]")), "Expected `int` >= 0"),
    "no choice": (saying(200, '{"choices": []}'), "length >= 1"),
    "deep": (saying(200, "[" * 100_000), "BadAnswer"),
    "not text": (saying(200, b'{"choices": "\xff\xfe"}'), "BadAnswer"),
    "endless": (chunk_of_zeros, "TooLarge: .*passes 16 MiB"),
    "cut off": (saying(200, b"{}", Content_Length="900"), "RemoteProtocolError: .*broke off"),
    "no HTTP": (no_http, "RemoteProtocolError: .*broke off"),
    "an error": (
        saying(500, '{"error": {"message": "out of\\nmemory", "code": 500}}'),
        "HTTP 500: .*/v1/completions: out of memory",
    ),
    "an error in HTML": (saying(502, "<h1>Bad Gateway</h1>"), "HTTP 502: .*Bad Gateway"),
    "a refusal": (saying(400, '{"message": "no such thing"}'), "HTTP 400: .*no such thing"),
}


@pytest.mark.parametrize("what", GARBAGE)
def test_an_answer_that_is_none_is_a_result(
    what: str, server: Server, engine: ServerEngine
) -> None:
    server.answers["/v1/completions"], said = GARBAGE[what]
    error = failed(engine)
    assert error.type_name
    assert re.search(said, str(error)), str(error)
    assert len(str(error)) < 600
    del server.answers["/v1/completions"]
    assert engine.generate([REQUEST])[0].error is None, "the next one is answered"


@pytest.mark.parametrize("what", sorted(GARBAGE.keys() - {"a list"}))
def test_a_server_that_speaks_garbage_is_no_start(
    what: str, server: Server, connect: Connect
) -> None:
    server.answers["/v1/models"] = GARBAGE[what][0]
    engine = connect(server)
    assert engine.identify().version == "unknown"
    with pytest.raises(EngineError):
        engine.start(SPEC)


def test_one_bad_answer_leaves_the_others(server: Server, engine: ServerEngine) -> None:
    def answer(handler: Handler) -> None:
        bad = any(b["max_tokens"] == 4 for _, h, b in server.asked if h == dict(handler.headers))
        reply(handler, 500 if bad else 200, ids("[1]"))

    server.answers["/v1/completions"] = answer
    sent = [replace(REQUEST, max_tokens=most) for most in (333, 4, 55555)]
    errors = [answer.error is not None for answer in engine.generate(sent)]
    assert errors == [False, True, False]


def test_a_server_without_token_ids_is_said_once(server: Server, engine: ServerEngine) -> None:
    server.answers["/v1/completions"] = saying(200, '{"choices": [{"text": "hello"}]}')
    with pytest.raises(HarnessError, match="gives no token ids back"):
        engine.generate([REQUEST])


# --- servers that end --------------------------------------------------------------------------


def test_the_last_word_of_a_dying_server_is_no_result(server: Server, engine: ServerEngine) -> None:
    """As vLLM does when its core has died."""
    server.answers["/v1/completions"] = saying(500, '{"error": {"message": "EngineCore"}}')
    server.answers["/health"] = saying(503)
    with pytest.raises(WorkerGone, match=r"EngineCore; then HTTP 503: .*: without a word") as got:
        engine.generate([REQUEST])
    assert got.value.outcome == "crash"


def test_a_server_that_ends_within_an_answer_has_crashed(
    server: Server, engine: ServerEngine
) -> None:
    server.answers["/v1/completions"] = dying(server, 1)
    assert engine.generate([REQUEST])[0].error is None
    with pytest.raises(WorkerGone, match=r"broke off|nobody answers") as got:
        engine.generate([REQUEST])
    assert got.value.outcome == "crash"


# --- the key -----------------------------------------------------------------------------------


def test_the_key_goes_to_the_address_that_was_named(server: Server, connect: Connect) -> None:
    with serving() as other:
        page = f"{other.url}/metrics"
        engine = connect(server, metrics_url=page, api_key_env="LOOPBACK_KEY")
        engine.start(SPEC)
        engine.generate([REQUEST])
    assert {h.get("Authorization") for _, h, _ in server.asked} == {f"Bearer {KEY}"}
    assert other.paths() == ["/metrics"]
    assert all("Authorization" not in headers for _, headers, _ in other.asked)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_no_redirect_is_followed(status: int, server: Server, connect: Connect) -> None:
    with serving() as other:
        engine = connect(server, api_key_env="LOOPBACK_KEY")
        engine.start(SPEC)
        away = f"{other.url}/v1/completions?key={KEY}"
        server.answers["/v1/completions"] = saying(status, Location=away)
        error = failed(engine)
        assert other.asked == []
    assert error.type_name == f"HTTP {status}"
    assert f"{other.url}/v1/completions" in str(error)
    assert KEY not in str(error)


@pytest.mark.parametrize("status", [401, 403])
def test_a_refused_key_is_one_clear_line(status: int, server: Server, connect: Connect) -> None:
    server.answers["/v1/models"] = saying(status, f"wrong key {KEY}")
    with pytest.raises(HarnessError, match=f"{status}: the server refuses a request without a key"):
        connect(server).start(SPEC)
    with pytest.raises(HarnessError, match=r"refuses the key in LOOPBACK_KEY") as got:
        connect(server, api_key_env="LOOPBACK_KEY").start(SPEC)
    assert KEY not in str(got.value)


def test_a_key_that_is_sent_back_is_hidden(server: Server, connect: Connect) -> None:
    engine = connect(server, api_key_env="LOOPBACK_KEY")
    engine.start(SPEC)
    server.answers["/v1/completions"] = saying(400, f'{{"error": {{"message": "no {KEY}"}}}}')
    assert "no ***" in str(failed(engine))
    server.model = KEY
    with pytest.raises(HarnessError, match=r"another model is served: '\*\*\*'"):
        engine.start(SPEC)


# --- addresses ---------------------------------------------------------------------------------


@pytest.mark.parametrize("url", ["http://h:1", "http://h:1/", "http://h:1/v1", "http://h:1/v1/"])
def test_an_address_may_end_in_v1(url: str) -> None:
    assert Endpoint.parse(url, None, None).url == "http://h:1"
    assert Endpoint.parse(url, None, None).page == "http://h:1/metrics"


@pytest.mark.parametrize(
    "url",
    [
        *("", "h:1", "ftp://h:1", "http://", "http://h:x", "http://h:99999", "file:///a"),
        *("http://h/a b", "http://h/?key=x", "http://h/#x", "http://h\n:1", "http://[::1"),
    ],
)
def test_no_address_is_a_usage_error(url: str) -> None:
    with pytest.raises(UsageError, match=r"--url.*want http://HOST"):
        Endpoint.parse(url, None, None)


def test_a_key_in_the_address_is_not_repeated() -> None:
    with pytest.raises(UsageError, match="--api-key-env") as got:
        Endpoint.parse(f"http://me:{KEY}@h:1", None, None)
    assert KEY not in str(got.value)


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("LOOPBACK_KEY", None, "no such variable"),
        ("LOOPBACK_KEY", "", "no such variable"),
        ("LOOPBACK_KEY", "abc", "6 or more"),
        ("LOOPBACK_KEY", "abc defgh", "printable ASCII"),
        ("LOOPBACK_KEY", "abc\r\nHost: x", "printable ASCII"),
        ("LOOPBACK_PASS", KEY, "ends in _KEY"),
    ],
)
def test_a_key_that_could_not_be_hidden_is_refused(
    name: str, value: str | None, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if value is None:
        monkeypatch.delenv(name, raising=False)
    else:
        monkeypatch.setenv(name, value)
    with pytest.raises(UsageError, match=why) as got:
        Endpoint.parse("http://h:1", None, name)
    assert not value or value not in str(got.value)


def test_what_the_worker_finds_is_what_was_given(monkeypatch: pytest.MonkeyPatch) -> None:
    for given in (
        Endpoint("http://h:1"),
        Endpoint("http://h:1", "http://i:2/m", "LOOPBACK_KEY"),
    ):
        for name, value in given.env().items():
            monkeypatch.setenv(name, value)
        assert Endpoint.from_env() == given
        assert KEY not in repr(given.env())


def test_the_twin_of_these_tests_is_asked_for_by_its_weights() -> None:
    assert SPEC.served_as.endswith(TWIN.fingerprint)
    assert isinstance(FakeEngine().generate([REQUEST])[0], Generation)
