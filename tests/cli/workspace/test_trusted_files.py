"""What a run takes from its surroundings where commands can write: places, variables, programs and mounts."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from fleetwright_api.spec.mcp_server import EnvironmentVariable, WorkloadSpec
from fleetwright_cli.dev.manifests import InvalidFleet
from fleetwright_cli.dev.server_command import require_trusted_command
from fleetwright_cli.dev.workspace.folders import remove_import_folders
from fleetwright_cli.dev.workspace.known_states import claim_state
from fleetwright_cli.dev.workspace.places import (
    find_program,
    require_outside_home,
    resolve_place,
    trusted_environment,
)
from fleetwright_cli.dev.workspace.trusted_files import TrustedFiles, find_run_files, mount_options

SHOP = Path("/home/me/shop")


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        pytest.param({"PATH": "/home/me/shop/.venv/bin:/usr/bin"}, {"PATH": "/usr/bin"}, id="an environment"),
        pytest.param({"PATH": ".:/usr/bin"}, {"PATH": "/usr/bin"}, id="the current folder"),
        pytest.param({"PATH": ":/usr/bin"}, {"PATH": "/usr/bin"}, id="an empty word"),
        pytest.param({"PYTHONPATH": "src"}, {}, id="a relative folder"),
        pytest.param({"PYTHONPATH": "../lib"}, {"PYTHONPATH": "../lib"}, id="a folder beside"),
        pytest.param({"NODE_OPTIONS": "--require /home/me/shop/x.js"}, {}, id="an option"),
        pytest.param({"LD_PRELOAD": "/home/me/shop/x.so"}, {}, id="a library"),
        pytest.param({"GIT_DIR": "/home/me/shop"}, {}, id="a repository"),
        pytest.param({"LANG": "C.UTF-8"}, {"LANG": "C.UTF-8"}, id="a word"),
        pytest.param({"EMPTY": ""}, {"EMPTY": ""}, id="an empty value"),
        pytest.param({"OTHER": "/home/me/shopping"}, {"OTHER": "/home/me/shopping"}, id="a longer name"),
    ],
)
def test_variables_name_nothing_in_a_workspace(given: Mapping[str, str], wanted: Mapping[str, str]) -> None:
    assert trusted_environment(given, [SHOP], SHOP) == wanted


@pytest.mark.parametrize(
    ("path", "is_refused"),
    [
        pytest.param("shop/agents", False, id="a folder"),
        pytest.param("shop/link", True, id="a link in the workspace"),
        pytest.param("shop/link/deeper", True, id="a folder below a link in the workspace"),
        pytest.param("outside", False, id="a link into the workspace"),
        pytest.param("twice", True, id="a link to a link in the workspace"),
        pytest.param("shop/../outside", False, id="a way out of the workspace"),
    ],
)
def test_places_lead_through_no_link_of_a_workspace(path: str, is_refused: bool, tmp_path: Path) -> None:
    shop = tmp_path / "shop"
    (shop / "agents").mkdir(parents=True)
    (shop / "link").symlink_to(tmp_path)
    (tmp_path / "outside").symlink_to(shop / "agents")
    (tmp_path / "twice").symlink_to("shop/link")
    if is_refused:
        with pytest.raises(InvalidFleet, match="symbolic link in a workspace"):
            resolve_place(tmp_path / path, [shop], "-f")
    else:
        assert resolve_place(tmp_path / path, [shop], "-f") == (tmp_path / path).resolve()


def test_programs_are_not_searched_in_a_workspace(tmp_path: Path) -> None:
    for folder in ("shop/bin", "bin"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "bwrap").touch(mode=0o755)
    (tmp_path / "shop/bin/git").touch(mode=0o755)
    (tmp_path / "bin/git").symlink_to(tmp_path / "shop/bin/git")
    environ = {"PATH": f"bin:{tmp_path}/shop/bin:{tmp_path}/bin"}
    shop = tmp_path / "shop"
    assert find_program("bwrap", environ, [shop], shop) == str(tmp_path / "bin/bwrap")
    assert find_program("git", environ, [shop], shop) is None


@pytest.mark.parametrize(
    ("command", "is_refused"),
    [
        pytest.param(["sh", "-c", "exec python3 {folder}/missing.py"], True, id="a path in a script"),
        pytest.param(["python3", "tools/server.py"], True, id="a script"),
        pytest.param(["python3", "server.py"], True, id="a script of the current folder"),
        pytest.param(["node", "--require=./server.py"], True, id="an option"),
        pytest.param(["fleetwright", "tools"], False, id="a word"),
        pytest.param(["/usr/bin/env", "python3", "missing.py"], False, id="a file that does not exist"),
    ],
)
def test_servers_start_from_no_workspace(command: list[str], is_refused: bool, tmp_path: Path) -> None:
    (tmp_path / "tools").mkdir()
    for name in ("server.py", "tools/server.py"):
        (tmp_path / name).touch()
    workload = WorkloadSpec(command=tuple(word.format(folder=tmp_path) for word in command))
    if is_refused:
        with pytest.raises(InvalidFleet, match=r"McpServer x: spec.workload.command: .* names a file of a workspace"):
            require_trusted_command("x", workload, [tmp_path], tmp_path)
    else:
        require_trusted_command("x", workload, [tmp_path], tmp_path)


@pytest.mark.parametrize("word", ["shop", "shop/", "./shop", "--main=shop"])
def test_servers_start_no_folder_of_a_workspace_beside_them(word: str, tmp_path: Path) -> None:
    """Python runs the file `__main__.py` of a folder."""
    (tmp_path / "shop").mkdir()
    with pytest.raises(InvalidFleet, match=r"spec.workload.command: .* names a file of a workspace"):
        require_trusted_command("x", WorkloadSpec(command=("python3", word)), [tmp_path / "shop"], tmp_path)


def test_servers_get_no_path_of_a_workspace_in_a_variable(tmp_path: Path) -> None:
    trusted = WorkloadSpec(command=("python3",), env=(EnvironmentVariable(name="A", value="/usr/lib:shop"),))
    require_trusted_command("x", trusted, [tmp_path], tmp_path)
    for value in (f"/usr/lib:{tmp_path}", f"--require={tmp_path}/a.js"):
        planted = WorkloadSpec(command=("python3",), env=(EnvironmentVariable(name="PYTHONPATH", value=value),))
        with pytest.raises(InvalidFleet, match=r"spec.workload.env: PYTHONPATH names a file of a workspace"):
            require_trusted_command("x", planted, [tmp_path], tmp_path)


def test_home_is_no_workspace(tmp_path: Path) -> None:
    (tmp_path / "me/shop").mkdir(parents=True)
    environ = {"HOME": str(tmp_path / "me")}
    require_outside_home({"coder": tmp_path / "me/shop"}, environ)
    for folder in (tmp_path / "me", tmp_path):
        with pytest.raises(InvalidFleet, match=r"--workspace coder: .* contains your home folder"):
            require_outside_home({"coder": folder}, environ)


def test_modules_are_not_imported_from_a_workspace(tmp_path: Path) -> None:
    before = list(sys.path)
    (tmp_path / "src").mkdir()
    entries = [str(tmp_path), "src", str(tmp_path / ".venv")]
    sys.path[:0] = entries
    try:
        remove_import_folders([tmp_path], {"PYTHONPATH": f"src{os.pathsep}/usr"}, tmp_path)
        assert sys.path == [str(tmp_path / ".venv"), *before]
    finally:
        sys.path[:] = before


def test_mounts_keep_the_folders_above_a_path() -> None:
    trusted = TrustedFiles(
        read_only=(SHOP / "a/agents",), hidden=(SHOP / "b/c/state",), git=(SHOP / ".git/hooks",), kept=(SHOP / "other",)
    )
    assert mount_options(SHOP, "/workspace", trusted) == [
        *("--bind", f"{SHOP}/.git", "/workspace/.git", "--ro-bind", f"{SHOP}/.git/hooks", "/workspace/.git/hooks"),
        *("--bind", f"{SHOP}/a", "/workspace/a", "--ro-bind", f"{SHOP}/a/agents", "/workspace/a/agents"),
        *("--bind", f"{SHOP}/b", "/workspace/b", "--bind", f"{SHOP}/b/c", "/workspace/b/c"),
        *("--tmpfs", "/workspace/b/c/state", "--remount-ro", "/workspace/b/c/state"),
        *("--bind", f"{SHOP}/other", "/workspace/other"),
    ]


@pytest.mark.parametrize(
    ("name", "error"),
    [
        pytest.param("manifests", "-f: .* is the folder of a workspace itself", id="manifests"),
        pytest.param("state", "--state: .* is the folder of a workspace itself", id="state"),
        pytest.param("programs", "fleetwright is installed in the workspace", id="the program"),
    ],
)
def test_workspace_is_not_a_folder_of_the_run(name: str, error: str) -> None:
    given: dict[str, tuple[Path, ...]] = {"manifests": (), "state": (), "programs": (), "others": ()}
    with pytest.raises(InvalidFleet, match=error):
        find_run_files(SHOP, **given | {name: (SHOP,)})
    found = find_run_files(SHOP, **given | {name: (SHOP / "x", SHOP / "x/y", Path("/usr"))})
    assert (*found.read_only, *found.hidden) == (SHOP / "x",)


def test_state_that_a_command_has_made_is_refused(tmp_path: Path) -> None:
    shop, home = tmp_path / "shop", tmp_path / "home"
    made, planted, outside = shop / "build/made", shop / "build/planted", tmp_path / "outside"
    for folder in (planted, outside):
        folder.mkdir(parents=True)
        (folder / "lock").symlink_to("/etc/passwd")
    assert claim_state(outside, [shop], home) == ()
    with pytest.raises(InvalidFleet, match=r"--state: .*planted lies in a workspace, and no run of yours has made it"):
        claim_state(planted, [shop], home)
    assert claim_state(made, [shop], home) == (made,)
    made.mkdir()
    (made / "tokens.json").touch()
    assert claim_state(made, [shop], home) == (made,)
    assert claim_state(outside, [shop], home) == (made,), "another run hides it too"
    (made / "tokens.json").unlink()
    made.rmdir()
    assert claim_state(outside, [shop], home) == (), "a removed folder is forgotten"
