"""A released volume is emptied and made available; other volumes and other folders stay as they are."""

from pathlib import Path

from e2e.cluster.volume_recycler import recycle


class RecordingKubectl:
    def __init__(self) -> None:
        self.patched: list[str] = []

    def run(self, *words: str) -> None:
        assert words[:2] == ("patch", "pv")
        self.patched.append(words[2])


def test_recycle_empties_released_volumes_only(tmp_path: Path) -> None:
    volumes, outside = tmp_path / "volumes", tmp_path / "outside"
    for folder in (volumes / "1", volumes / "2", outside):
        (folder / "below").mkdir(parents=True)
        (folder / "below" / "file").write_text("x")
    (volumes / "1" / "link").symlink_to(outside)
    kubectl = RecordingKubectl()
    lines = [
        f"v1 Released {volumes / '1'}\n",
        f"v2 Bound {volumes / '2'}\n",
        f"v3 Released {outside}\n",
        "v4  \n",
        "\n",
    ]
    recycle(lines, kubectl, volumes)
    assert kubectl.patched == ["v1"]
    assert list((volumes / "1").iterdir()) == []
    assert (volumes / "2" / "below" / "file").exists()
    assert (outside / "below" / "file").exists()
