"""The file calls of the runner over HTTP: what a client gets, and what it is refused."""

import os
import stat
from typing import Any

import httpx
import pytest
from tests.support.machine import ceiling
from tests.support.workspace import TOKEN, LocalWorkspace, digest_of


def _state(answer: dict[str, Any]) -> dict[str, Any]:
    return {"digest": answer["digest"], "mtime_ns": answer["mtime_ns"]}


def _code(answer: dict[str, Any]) -> str:
    return answer.get("error", {}).get("code", "")


@pytest.mark.parametrize(
    ("data", "fields", "wanted"),
    [
        pytest.param(b"a\nb\nc\n", {}, ("a\nb\nc\n", 3, 3, 0), id="whole file"),
        pytest.param(b"a\nb\nc", {"offset": 1}, ("b\nc", 2, 3, 0), id="offset, no final newline"),
        pytest.param(b"a\nb\nc\n", {"offset": 1, "limit": 1}, ("b\n", 1, 3, 0), id="limit"),
        pytest.param(b"a\r\nb\r\n", {}, ("a\nb\n", 2, 2, 0), id="CRLF"),
        pytest.param(b"\xef\xbb\xbfa\n", {}, ("a\n", 1, 1, 0), id="byte order mark"),
        pytest.param(b"", {}, ("", 0, 0, 0), id="empty file"),
        pytest.param(b"\n\n", {}, ("\n\n", 2, 2, 0), id="empty lines"),
        pytest.param(b"a\n", {"offset": 9}, ("", 0, 1, 0), id="offset after the end"),
        pytest.param(b"x" * 3000 + b"\ny\n", {}, ("x" * 2000 + "\ny\n", 2, 2, 1), id="long line"),
        pytest.param("a\u2028b\x0cc\n".encode(), {}, ("a\u2028b\x0cc\n", 1, 1, 0), id="other separators"),
        pytest.param(b"a\rb\n", {}, ("a\rb\n", 1, 1, 0), id="lone carriage return"),
        pytest.param(b"a\n" * 2001, {}, ("a\n" * 2000, 2000, 2001, 0), id="more lines than the limit by default"),
    ],
)
def test_read_returns_lines(
    workspace: LocalWorkspace, data: bytes, fields: dict[str, Any], wanted: tuple[str, int, int, int]
) -> None:
    (workspace.root / "read.txt").write_bytes(data)
    answer = workspace.call("read", path="read.txt", **fields)
    assert (answer["text"], answer["lines"], answer["total_lines"], answer["truncated_lines"]) == wanted
    assert answer["size"] == len(data)


def test_search_returns_a_hundred_matches_by_default(workspace: LocalWorkspace) -> None:
    (workspace.root / "many.txt").write_text("needle\n" * 101)
    answer = workspace.call("search", pattern="needle")
    assert (len(answer["matches"]), answer["truncated"]) == (100, True)


def test_read_of_large_file_is_a_range(workspace: LocalWorkspace) -> None:
    (workspace.root / "large.log").write_text("".join(f"line {number} ä\n" for number in range(400_000)))
    answer = workspace.call("read", path="large.log", offset=399_998, limit=10)
    assert answer["text"] == "line 399998 ä\nline 399999 ä\n"
    assert answer["total_lines"] == 400_000


@pytest.mark.parametrize(
    ("call", "fields", "code"),
    [
        pytest.param("read", {"path": "missing.txt"}, "not_found", id="missing file"),
        pytest.param("read", {"path": "folder"}, "is_directory", id="folder"),
        pytest.param("read", {"path": "../outside"}, "outside", id="parent of the root"),
        pytest.param("read", {"path": "/etc/passwd"}, "outside", id="absolute path"),
        pytest.param("read", {"path": "escape/passwd"}, "outside", id="link that leaves the root"),
        pytest.param("read", {"path": "loop"}, "outside", id="link without end"),
        pytest.param("read", {"path": "binary"}, "not_text", id="zero byte"),
        pytest.param("read", {"path": "latin1"}, "not_text", id="not UTF-8"),
        pytest.param("read", {"path": "pipe"}, "not_text", id="named pipe"),
        pytest.param("read", {"path": "a\0b"}, "bad_request", id="zero byte in a path"),
        pytest.param("read", {"path": "latin1", "surprise": 1}, "bad_request", id="unknown field"),
        pytest.param("read", {"path": 7}, "bad_request", id="wrong type"),
        pytest.param("read", {"path": "latin1", "limit": 0}, "bad_request", id="limit of zero"),
        pytest.param("write", {"path": "x"}, "bad_request", id="write without content"),
        pytest.param("write", {"path": "x", "content": "a"}, "bad_request", id="write without turn"),
        pytest.param("write", {"path": ".git/config", "content": "a", "turn": "t"}, "outside", id="write to git"),
        pytest.param("write", {"path": "sub/.GIT/hooks/x", "content": "a", "turn": "t"}, "outside", id="git, capital"),
        pytest.param("write", {"path": "hooks/x", "content": "a", "turn": "t"}, "outside", id="link to git"),
        pytest.param("write", {"path": "escape/x", "content": "a", "turn": "t"}, "outside", id="write outside"),
        pytest.param("write", {"path": "folder", "content": "a", "turn": "t"}, "is_directory", id="write a folder"),
        pytest.param("write", {"path": "big", "content": "a" * 2_100_000, "turn": "t"}, "too_large", id="2 MB"),
        pytest.param("write", {"path": "nul", "content": "\0", "turn": "t"}, "not_text", id="write a zero byte"),
        pytest.param("list", {"path": "latin1"}, "not_found", id="list a file"),
        pytest.param("search", {"pattern": "("}, "bad_request", id="invalid pattern"),
        pytest.param("rewind", {"turns": "t"}, "bad_request", id="no list of turns"),
    ],
)
def test_file_call_is_refused(workspace: LocalWorkspace, call: str, fields: dict[str, Any], code: str) -> None:
    root = workspace.root
    if not (root / "folder").exists():
        (root / "folder").mkdir()
        (root / ".git/hooks").mkdir(parents=True)
        (root / "hooks").symlink_to(".git/hooks")
        (root / "escape").symlink_to("/etc")
        (root / "loop").symlink_to("loop")
        (root / "binary").write_bytes(b"a\0b")
        (root / "latin1").write_bytes(b"caf\xe9\n")
        os.mkfifo(root / "pipe")
    assert _code(workspace.call(call, **fields)) == code


@pytest.mark.parametrize(
    ("header", "status"),
    [
        pytest.param({}, 401, id="no token"),
        pytest.param({"Authorization": "Bearer wrong"}, 401, id="wrong token"),
        pytest.param({"Authorization": f"Bearer {digest_of(TOKEN)}"}, 401, id="digest of the token"),
        pytest.param({"Authorization": f"Basic {TOKEN}"}, 401, id="wrong scheme"),
        pytest.param({"Authorization": f"Bearer {TOKEN}"}, 200, id="right token"),
    ],
)
def test_call_needs_a_token(workspace: LocalWorkspace, header: dict[str, str], status: int) -> None:
    with httpx.Client(base_url=workspace.http.base_url, trust_env=False, timeout=ceiling()) as client:
        assert client.get("/v1/info", headers=header).status_code == status
        assert client.get("/healthz", headers=header).json() == {"ready": True}


def test_tokens_file_is_read_again(own_workspace: LocalWorkspace) -> None:
    own_workspace.tokens.write_text(f"{digest_of('another')}\n{digest_of(TOKEN)}\n")
    assert own_workspace.http.get("/v1/info").status_code == 200
    own_workspace.tokens.write_text(f"{digest_of('another')}\n")
    assert own_workspace.http.get("/v1/info").status_code == 401
    accepted = own_workspace.http.get("/v1/info", headers={"Authorization": "Bearer another"})
    assert accepted.status_code == 200
    own_workspace.tokens.unlink()
    assert own_workspace.http.get("/v1/info", headers={"Authorization": "Bearer another"}).status_code == 401


def test_missing_file_names_similar_ones(workspace: LocalWorkspace) -> None:
    folder = workspace.root / "near/deep"
    folder.mkdir(parents=True)
    for name in ("settings.py", "setting.py", "other.txt"):
        (folder / name).write_text("")
    assert set(workspace.call("read", path="near/settngs.py")["nearest"]) == {
        "near/deep/settings.py",
        "near/deep/setting.py",
    }


def test_write_creates_and_replaces(workspace: LocalWorkspace) -> None:
    created = workspace.call("write", path="new/deep/file.txt", content="one\n", turn="w1")
    assert created["created"] is True
    assert created["diff"] == "--- /dev/null\n+++ b/new/deep/file.txt\n@@ -0,0 +1 @@\n+one\n"
    replaced = workspace.call("write", path="new/deep/file.txt", content="two\n", turn="w1", expected=_state(created))
    assert replaced["created"] is False
    assert (workspace.root / "new/deep/file.txt").read_text() == "two\n"
    outdated = workspace.call("write", path="new/deep/file.txt", content="three\n", turn="w1", expected=_state(created))
    assert _code(outdated) == "changed"
    # The repetition of a write that happened is no conflict.
    again = workspace.call("write", path="new/deep/file.txt", content="two\n", turn="w1", expected=_state(created))
    assert (again["digest"], again["diff"]) == (replaced["digest"], "")


def test_write_keeps_crlf_and_byte_order_mark(workspace: LocalWorkspace) -> None:
    (workspace.root / "dos.txt").write_bytes(b"\xef\xbb\xbfone\r\ntwo\r\n")
    workspace.call("write", path="dos.txt", content="one\nthree\n", turn="dos")
    assert (workspace.root / "dos.txt").read_bytes() == b"\xef\xbb\xbfone\r\nthree\r\n"


def test_edit_keeps_mode_and_link(workspace: LocalWorkspace) -> None:
    target = workspace.root / "tool.sh"
    target.write_text("echo one\n")
    target.chmod(0o750)
    link = workspace.root / "link.sh"
    link.symlink_to("tool.sh")
    read = workspace.call("read", path="link.sh")
    assert read["path"] == "tool.sh"
    edited = workspace.call("edit", path="link.sh", old="one", new="two", turn="m", expected=_state(read))
    assert edited["applied"] is True
    assert link.is_symlink()
    assert target.read_text() == "echo two\n"
    assert stat.S_IMODE(target.stat().st_mode) == 0o750


def test_edit_is_refused_after_a_change(workspace: LocalWorkspace) -> None:
    file = workspace.root / "outside.txt"
    file.write_text("a b\n")
    read = workspace.call("read", path="outside.txt")
    file.write_text("a c\n")
    os.utime(file, ns=(read["mtime_ns"], read["mtime_ns"]))
    fields = {"path": "outside.txt", "old": "a", "new": "x", "turn": "c"}
    assert _code(workspace.call("edit", **fields, expected=_state(read))) == "changed"
    file.write_text("a b\n")
    # The same content at another time is no change.
    assert workspace.call("edit", **fields, expected=_state(read))["applied"] is True


def test_edit_is_repeated_without_effect(workspace: LocalWorkspace) -> None:
    file = workspace.root / "repeat.txt"
    file.write_text("a\n")
    read = workspace.call("read", path="repeat.txt")
    fields = {"path": "repeat.txt", "old": "a", "new": "aa", "turn": "r", "expected": _state(read)}
    planned = workspace.call("edit", **fields, dry_run=True)
    assert (planned["applied"], file.read_text()) == (False, "a\n")
    first = workspace.call("edit", **fields, result_digest=planned["digest"])
    second = workspace.call("edit", **fields, result_digest=planned["digest"])
    assert (first["applied"], second["applied"]) == (True, False)
    assert first["digest"] == second["digest"] == planned["digest"]
    assert file.read_text() == "aa\n"


def test_rewind_restores_what_tools_changed(workspace: LocalWorkspace) -> None:
    root = workspace.root
    for name in ("kept.txt", "touched.txt", "between.txt"):
        (root / name).write_text("before\n")
    workspace.call("checkpoints", turn="u1")
    for name in ("kept.txt", "touched.txt", "between.txt", "made.txt"):
        workspace.call("write", path=name, content="during\n", turn="u1")
    workspace.call("write", path="kept.txt", content="later\n", turn="u2")
    (root / "touched.txt").write_text("by a command\n")
    (root / "between.txt").write_text("by a command\n")
    workspace.call("write", path="between.txt", content="again\n", turn="u2")
    answer = workspace.call("rewind", turns=["u1", "u2", "unknown"])
    assert sorted(answer["restored"]) == ["kept.txt", "made.txt"]
    assert sorted(skip["path"] for skip in answer["skipped"]) == ["between.txt", "touched.txt"]
    assert (root / "kept.txt").read_text() == "before\n"
    assert (root / "touched.txt").read_text() == "by a command\n"
    assert not (root / "made.txt").exists()
    assert workspace.call("rewind", turns=["u1", "u2"])["restored"] == []


def test_rewind_keeps_what_other_turns_changed(workspace: LocalWorkspace) -> None:
    root = workspace.root
    for name in ("mine.txt", "shared.txt"):
        (root / name).write_text("before\n")
        workspace.call("write", path=name, content="mine\n", turn="m1")
    workspace.call("write", path="shared.txt", content="theirs\n", turn="o1")
    workspace.call("write", path="theirs.txt", content="theirs\n", turn="o1")
    answer = workspace.call("rewind", turns=["m1"])
    assert (answer["restored"], [skip["path"] for skip in answer["skipped"]]) == (["mine.txt"], ["shared.txt"])
    assert [(root / name).read_text() for name in ("mine.txt", "shared.txt", "theirs.txt")] == [
        "before\n",
        "theirs\n",
        "theirs\n",
    ]


def test_rewind_follows_the_order_of_changes(own_workspace: LocalWorkspace) -> None:
    file = own_workspace.root / "f.txt"
    file.write_text("a\n")
    for turn, content in (("A", "b\n"), ("B", "c\n"), ("A", "d\n")):
        own_workspace.call("write", path="f.txt", content=content, turn=turn)
        own_workspace.runner.kill()
        own_workspace.runner.wait()
        own_workspace.http.close()
        own_workspace.runner = own_workspace.start_runner()
    assert own_workspace.call("rewind", turns=["A", "B"]) == {"restored": ["f.txt"], "skipped": []}
    assert file.read_text() == "a\n"


def test_undo_survives_a_restart(own_workspace: LocalWorkspace) -> None:
    file = own_workspace.root / "a.txt"
    file.write_text("before\n")
    own_workspace.call("write", path="a.txt", content="after\n", turn="t")
    for _ in range(2):
        own_workspace.runner.kill()
        own_workspace.runner.wait()
        own_workspace.http.close()
        own_workspace.runner = own_workspace.start_runner()
        assert own_workspace.call("rewind", turns=["t"], turn="u") == {"restored": ["a.txt"], "skipped": []}
        assert file.read_text() == "before\n"
    assert own_workspace.call("rewind", turns=["t"], turn="another")["restored"] == []
    assert own_workspace.call("rewind", turns=["t", "other"], turn="u")["restored"] == []


def test_list_tree_and_instructions(own_workspace: LocalWorkspace) -> None:
    root = own_workspace.root
    for name in ("src/app/main.py", "src/AGENTS.md", "AGENTS.md", "node_modules/x/index.js", "docs/a.md"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name)
    listed = own_workspace.call("list", depth=2)
    assert [entry["name"] for entry in listed["entries"]] == [
        "AGENTS.md", "docs", "node_modules", "src", "docs/a.md", "node_modules/x", "src/AGENTS.md", "src/app",
    ]  # fmt: skip
    assert own_workspace.call("list", limit=2)["truncated"] is True
    assert own_workspace.call("tree", entries=2)["text"].splitlines() == ["AGENTS.md", "docs/", "  a.md", "… 2 more"]
    found = own_workspace.call("instructions", paths=["src/app/main.py", "docs/a.md"])["files"]
    assert [file["path"] for file in found] == ["src/AGENTS.md", "AGENTS.md"]


def test_paths_tells_where_a_path_leads(workspace: LocalWorkspace) -> None:
    (workspace.root / "where").mkdir()
    (workspace.root / "where/out").symlink_to("/etc/hostname")
    answer = workspace.call("paths", cwd="where", paths=["x", "out", "../where", "../../..", "/etc/hostname"])
    assert [(path["inside"], path["exists"], path["kind"]) for path in answer["paths"]] == [
        (True, False, ""),
        (False, False, ""),
        (True, True, "directory"),
        (False, False, ""),
        (False, False, ""),
    ]
