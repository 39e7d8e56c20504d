"""Hub access against a loopback server: what it answers, and what it must not get away with."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from config_samples import configs
from loopback_hub import COMMIT, Handler, Hub, reply, safetensors, serving

from matrix.errors import ConfigError, UsageError
from matrix.preflight import _hub, open_draft, open_target
from matrix.preflight._files import CONFIG, HEADER
from matrix.preflight._hub import HubId, fetch, hub_id, next_url

constants = pytest.importorskip("huggingface_hub.constants", reason="hub ids need the hub's client")
TOKEN = "hf_" + "secretsecret"
DRAFT = "z-lab/Qwen3-4B-DFlash-b16"
TARGET = "Qwen/Qwen3-4B"
ROOT = Path(__file__).parents[3]


def at(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    """What `HF_ENDPOINT` sets when the library is imported."""
    monkeypatch.setattr(constants, "ENDPOINT", url)
    template = url + "/{repo_id}/resolve/{revision}/{filename}"
    monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Hub]:
    with serving() as hub:
        monkeypatch.setenv("NO_PROXY", "127.0.0.1,localhost")
        monkeypatch.setenv("HF_TOKEN", TOKEN)
        at(monkeypatch, hub.url)
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
        monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
        monkeypatch.setattr(_hub, "_PATIENCE", 0.5)
        monkeypatch.setattr(_hub, "_DEADLINE", 1.0)
        target, draft = configs("nested")
        hub.put(TARGET, "config.json", target)
        hub.put(DRAFT, "config.json", draft)
        yield hub


def answering(hub: Hub, answer: Any, file: str = "config.json") -> None:
    hub.files[f"{DRAFT}/{file}"] = answer


# --- what is right -----------------------------------------------------------------------------


def test_config_tokenizer_and_header_are_all_that_is_fetched(hub: Hub) -> None:
    hub.put(TARGET, "tokenizer_config.json", {"pad_token": "<pad>"})
    hub.put(
        DRAFT, "model.safetensors", safetensors({"fc.weight": ("BF16", [2560, 12800])}) + b"w" * 99
    )
    target, draft = open_target(TARGET), open_draft(DRAFT)
    assert (target.hub, target.revision, target.tokenizer) == (True, COMMIT, {"pad_token": "<pad>"})
    assert draft.tensors is not None
    assert draft.tensors["fc.weight"].shape == (2560, 12800)
    paths = [path.rpartition("/")[2] for path in hub.fetched]
    wanted = ["config.json", "tokenizer_config.json", "config.json"]
    assert paths == [*wanted, "model.safetensors.index.json", "model.safetensors"]
    assert {
        path.rpartition("/")[2] for path, headers in hub.asked if "range" in map(str.lower, headers)
    } == {"model.safetensors"}


def test_later_files_come_from_the_same_commit(hub: Hub) -> None:
    open_draft(f"{DRAFT}@main")
    assert hub.fetched[0] == f"/{DRAFT}/resolve/main/config.json"
    assert {path.split("/")[4] for path in hub.fetched[1:]} == {COMMIT}


def test_a_folder_of_a_repository_is_a_side(hub: Hub) -> None:
    hub.put(DRAFT, "dflash/config.json", configs("nested")[1])
    assert open_draft(f"{DRAFT}/dflash@v1").name == f"{DRAFT}/dflash"
    assert hub.fetched[0] == f"/{DRAFT}/resolve/v1/dflash/config.json"


def test_a_header_longer_than_the_first_read_is_read_whole(hub: Hub) -> None:
    many = {f"layers.{place}.x.weight": ("BF16", [1]) for place in range(2000)}
    hub.put(DRAFT, "model.safetensors", safetensors(many))
    tensors = open_draft(DRAFT).tensors
    assert tensors is not None
    assert len(tensors) == 2000


def test_shards_are_followed_through_their_index(hub: Hub) -> None:
    names = {"fc.weight": "model-1.safetensors", "norm.weight": "model-2.safetensors"}
    hub.put(DRAFT, "model.safetensors.index.json", {"weight_map": names})
    for name, file in names.items():
        hub.put(DRAFT, file, safetensors({name: ("BF16", [4])}))
    assert open_draft(DRAFT).tensors is not None
    assert set(open_draft(DRAFT).tensors or ()) == set(names)


def test_a_server_that_knows_no_ranges_is_cut_short(hub: Hub) -> None:
    body = safetensors({"fc.weight": ("BF16", [4, 8])}) + b"w" * (1 << 20)
    answering(hub, lambda handler: reply(handler, 200, body), "model.safetensors")
    assert set(open_draft(DRAFT).tensors or ()) == {"fc.weight"}


def test_a_redirect_on_the_same_host_is_followed(hub: Hub) -> None:
    there = f"/api/resolve-cache/models/{DRAFT}/resolve/main/moved.json"
    content = hub.files[f"{DRAFT}/config.json"]
    answering(hub, lambda handler: reply(handler, 307, Location=there, X_Repo_Commit=COMMIT))
    hub.files[f"api/resolve-cache/models/{DRAFT}/moved.json"] = content
    assert open_draft(DRAFT).revision == COMMIT


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a/b", HubId("a/b")),
        ("a/b@main", HubId("a/b", "", "main")),
        ("a/b/sub/dir@refs/pr/1", HubId("a/b", "sub/dir", "refs/pr/1")),
        ("b", None),
        ("../b", None),
        ("a/..", None),
        ("a/b/../c", None),
        ("a/b@../x", None),
        ("http://a/b", None),
        ("a/b?x=1", None),
        ("a/b\n", None),
        ("ä/b", None),
    ],
)
def test_hub_ids(text: str, expected: HubId | None) -> None:
    assert hub_id(text) == expected


# --- what goes wrong ---------------------------------------------------------------------------


def slow(handler: Handler) -> None:
    time.sleep(1.5)
    reply(handler, 200, b"{}")


def dripping(handler: Handler) -> None:
    handler.send_response(200)
    handler.send_header("Content-Length", "100000")
    handler.end_headers()
    for _ in range(30):
        try:
            handler.wfile.write(b" ")
        except OSError:
            return
        time.sleep(0.1)


def endless(handler: Handler) -> None:
    """A gigabyte, unless the reader has had enough."""
    handler.send_response(200)
    handler.send_header("Content-Length", str(1 << 30))
    handler.end_headers()
    for _ in range(1 << 10):
        try:
            handler.wfile.write(b" " * (1 << 20))
        except OSError:
            return


def nameless(handler: Handler) -> None:
    handler.wfile.write(b"\x00\x01 no HTTP at all\r\n\r\n")


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (None, "no such repository"),
        (lambda h: reply(h, 401, X_Error_Code="RepoNotFound"), "refused .401.; there is no such"),
        (lambda h: reply(h, 403, X_Error_Code="GatedRepo"), "gated and HF_TOKEN doesn't open it"),
        (lambda h: reply(h, 404, X_Error_Code="RevisionNotFound"), "no such revision"),
        (lambda h: reply(h, 404, X_Error_Code="EntryNotFound"), "has no config.json"),
        (lambda h: reply(h, 500), "answers 500"),
        (lambda h: reply(h, 429), "answers 429"),
        (slow, "no answer within"),
        (dripping, "not whole within 1 s"),
        (endless, f"larger than {CONFIG} bytes"),
        (nameless, "no HTTP"),
        (lambda h: reply(h, 200, b'{"a": 1', length=400), "truncated"),
        (b'{"a": 1', "line 1 column 8: not JSON"),
        (b'{"a": [1, 2,], "b": 1}', "a comma before a closing bracket"),
        (b"\xff\xfe{}", "byte 0 is not UTF-8"),
        (b"[1]", "holds list; it should be a table"),
        (b"", "line 1 column 1"),
        (b'{"a": ' * 100 + b"1" + b"}" * 100, "nested deeper than 64"),
        (b"[" * 200_000, "nested deeper than 64"),
        (b'{"a": ' + b"9" * 5000 + b"}", "a number beyond 64 bits"),
        (b'{"a": 1e999}', "a number beyond 64 bits"),
        (b'{"a": NaN}', "holds NaN"),
        (lambda h: reply(h, 302, Location="http://localhost:9/x"), "redirects to another host"),
        (
            lambda h: reply(h, 302, Location="https://evil.example/x"),
            "another host, 'evil.example'",
        ),
        (lambda h: reply(h, 302, Location=h.path), "more than 5 redirects"),
        (lambda h: reply(h, 302, Location="file:///etc/passwd"), "redirects to another host"),
        (
            lambda h: reply(h, 200, gzip.compress(b" " * (1 << 20)), Content_Encoding="gzip"),
            "comes compressed",
        ),
    ],
)
def test_bad_answers_are_one_line(hub: Hub, answer: Any, words: str) -> None:
    if answer is None:
        hub.files = {name: body for name, body in hub.files.items() if DRAFT not in name}
    else:
        answering(hub, answer)
    began = time.monotonic()
    with pytest.raises(ConfigError, match=words) as caught:
        open_draft(DRAFT)
    assert time.monotonic() - began < 5
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith(DRAFT)
    assert TOKEN not in str(caught.value)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"abc", "truncated; a safetensors file starts with eight bytes"),
        (safetensors({"a": ("BF16", [1])}, length=1 << 40), f"2 to {HEADER} are read"),
        (safetensors({"a": ("BF16", [1])}, length=0), "gives 0 bytes"),
        (safetensors({"a": ("BF16", [1])}, length=5000), "truncated; its header should have 5000"),
        (safetensors({"a": ("BF16", [1])}, length=10), "not JSON"),
        (safetensors({"a": ("BF16", [-1])}), "has no dtype and shape"),
        (safetensors({"a": (7, ["x"])}), "has no dtype and shape"),  # type: ignore[dict-item, list-item]
    ],
)
def test_lying_headers_are_one_line(hub: Hub, data: bytes, words: str) -> None:
    answering(hub, data, "model.safetensors")
    with pytest.raises(ConfigError, match=words):
        open_draft(DRAFT)


@pytest.mark.parametrize("name", ["../../etc/passwd", "/etc/passwd", "a/b.safetensors", "x.bin", 7])
def test_an_index_names_only_files_beside_it(hub: Hub, name: Any) -> None:
    hub.put(DRAFT, "model.safetensors.index.json", {"weight_map": {"a": name}})
    with pytest.raises(ConfigError, match="which is no file beside it"):
        open_draft(DRAFT)
    assert not [path for path, _ in hub.asked if "passwd" in path]


# --- redirects and secrets ---------------------------------------------------------------------


def test_weights_may_come_from_elsewhere_over_https_alone() -> None:
    here = "https://hub.example/a/b/resolve/main/model.safetensors"
    there = "https://cdn.example/x"
    assert next_url(here, there, "a/b: model.safetensors") == there
    for location, name in (
        ("http://cdn.example/x", "a/b: model.safetensors"),
        (there, "a/b: config.json"),
        ("//cdn.example/x", "a/b: config.json"),
        ("https://hub.example.evil/x", "a/b: config.json"),
        ("https://hub.example@evil/x", "a/b: config.json"),
    ):
        with pytest.raises(ConfigError, match="another host"):
            next_url(here, location, name)


def test_the_token_goes_to_the_hub_and_to_nobody_else(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving() as other:
        other.files["cdn/model.safetensors"] = safetensors({"fc.weight": ("BF16", [4, 8])})
        location = f"{other.url}/cdn/resolve/main/model.safetensors"
        # A second host can only be had here without https.
        monkeypatch.setattr(_hub, "next_url", lambda url, there, name: there)
        answering(hub, lambda handler: reply(handler, 302, Location=location), "model.safetensors")
        assert set(open_draft(DRAFT).tensors or ()) == {"fc.weight"}
        assert {
            headers.get("authorization", headers.get("Authorization")) for _, headers in hub.asked
        } == {f"Bearer {TOKEN}"}
        assert other.asked
        assert not [
            h for _, headers in other.asked for h in headers if h.lower() == "authorization"
        ]


# --- offline, cache, missing -------------------------------------------------------------------


def kept(folder: Path, repo: str, files: dict[str, Any]) -> None:
    """What a download leaves in the hub's cache."""
    home = folder / "hub" / f"models--{repo.replace('/', '--')}"
    (home / "refs").mkdir(parents=True)
    (home / "refs" / "main").write_text(COMMIT)
    snapshot = home / "snapshots" / COMMIT
    snapshot.mkdir(parents=True)
    for name, content in files.items():
        (snapshot / name).write_text(json.dumps(content))


def test_offline_the_cache_is_read_and_nobody_is_asked(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    kept(tmp_path, DRAFT, {"config.json": configs("nested")[1]})
    draft = open_draft(DRAFT)
    assert (draft.revision, draft.tensors) == (COMMIT, None)
    with pytest.raises(ConfigError, match="not in the hub's cache, and HF_HUB_OFFLINE is set"):
        open_target(TARGET)
    assert not hub.asked


def test_a_hub_that_can_t_be_reached_leaves_the_cache(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at(monkeypatch, "http://user:pass@127.0.0.1:9")
    with pytest.raises(ConfigError, match=r"127.0.0.1 can't be reached") as caught:
        open_draft(DRAFT)
    assert "pass" not in str(caught.value)
    kept(tmp_path, DRAFT, {"config.json": configs("nested")[1]})
    assert open_draft(DRAFT).revision == COMMIT


def test_without_the_package_a_hub_id_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(UsageError, match=r"pip install 'dflash-matrix\[preflight\]'"):
        fetch(HubId("a/b"), "config.json", CONFIG)


def test_the_command_line_uses_the_hub_s_own_variables(hub: Hub, tmp_path: Path) -> None:
    secret = "hf_" + "bad\nsecret"
    env = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "HF_ENDPOINT": hub.url,
        "HF_HOME": str(tmp_path),
        "HF_HUB_OFFLINE": "0",
    }
    command = [sys.executable, "-m", "matrix", "new", TARGET, DRAFT]
    done = subprocess.run(
        command, env=env, capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert f'revision = "{COMMIT}"' in done.stdout
    assert TOKEN not in done.stdout
    answering(hub, lambda handler: reply(handler, 401))
    for token in (TOKEN, secret):
        done = subprocess.run(
            command,
            env={**env, "HF_TOKEN": token},
            capture_output=True,
            text=True,
            check=False,
            cwd=tmp_path,
        )
        assert done.returncode == 2
        assert done.stderr.count("\n") == 1
        assert "secret" not in done.stdout + done.stderr
