"""The changes that require a new build of an image."""

from dataclasses import replace
from pathlib import Path

import pytest
from e2e.cluster.image_list import AGENT, IMAGES, PAUSE, PRODUCT, Image, digest, files
from e2e.cluster.paths import CHECKOUT

IMAGE = replace(AGENT, containerfile="Containerfile", sources=("src", "lock.txt"))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "src" / "__pycache__").mkdir(parents=True)
    for name in ("Containerfile", "lock.txt", "src/a.py", "src/__pycache__/a.pyc", "unrelated.py"):
        (tmp_path / name).write_text(name)
    return tmp_path


def of(root: Path, *inputs: str) -> str:
    return digest(root, IMAGE, inputs=inputs)


def test_digest_is_stable_for_the_same_content(root: Path) -> None:
    before = of(root)
    (root / "src" / "a.py").touch()
    (root / "unrelated.py").write_text("changed")
    (root / "src" / "__pycache__" / "a.pyc").write_text("changed")
    assert of(root) == before


@pytest.mark.parametrize("name", ["Containerfile", "lock.txt", "src/a.py", "src/new.py"])
def test_digest_changes_with_a_changed_or_new_file(root: Path, name: str) -> None:
    before = of(root)
    (root / name).write_text("changed")
    assert of(root) != before


def test_digest_changes_with_a_renamed_file(root: Path) -> None:
    before = of(root)
    (root / "src" / "a.py").rename(root / "src" / "b.py")
    assert of(root) != before


def test_digest_changes_with_an_executable_bit(root: Path) -> None:
    before = of(root)
    (root / "src" / "a.py").chmod(0o755)
    assert of(root) != before


def test_digest_changes_with_the_base(root: Path) -> None:
    assert of(root, "base:1") != of(root, "base:2")


def test_folder_symlink_is_a_source_by_its_target(root: Path) -> None:
    (root / "src" / "link").symlink_to("../one")
    before = of(root)
    assert Path("src/link") in files(root, IMAGE.sources)
    (root / "src" / "link").unlink()
    (root / "src" / "link").symlink_to("../two")
    assert of(root) != before


def test_c_programs_are_inputs_of_their_image() -> None:
    assert {Path(name).name for name in PAUSE.inputs} == {"Containerfile", "pause.c"}


@pytest.mark.parametrize("image", IMAGES.values(), ids=IMAGES)
def test_image_inputs_exist(image: Image) -> None:
    assert all((CHECKOUT / name).exists() for name in image.inputs)


def test_images_are_listed_after_their_parents() -> None:
    names = list(IMAGES)
    for image in IMAGES.values():
        assert image.parent is None or names.index(image.parent) < names.index(image.name)


def test_product_images_have_the_references_of_the_examples() -> None:
    assert {image.reference for image in PRODUCT} == {
        "docker.io/fleetwright/agent:0.1.0",
        "docker.io/fleetwright/operator:0.1.0",
        "docker.io/fleetwright/gateway:0.1.0",
        "docker.io/fleetwright/offline:0.1.0",
    }
