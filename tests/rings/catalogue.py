"""The rings, and the runs that consist of them: `check`, `test`, `test-cluster` and `test-all`.

A ring is a group of tests that need the same environment, as one command. A ring that cannot run on a machine ends with
77, and its reason is the last line. This module starts nothing.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace

from e2e.cluster.parts import CONTROL_PLANE

RING_MARGIN = 5.0
"""The ceiling of a ring is this many times its quiet duration."""
PYTEST = (sys.executable, "-m", "pytest", "-q")
_MAKE = ("make", "--no-print-directory")
_PYTHON_MODULE = (sys.executable, "-m")
_WITHOUT_CLUSTER = tuple(
    f"tests/{folder}"
    for folder in (
        "libs",
        "operator",
        "agent_image",
        "gateway",
        "cli",
        "workspace",
        "contract",
        "charts",
        "e2e_cluster",
        "rings",
    )
)
_WORKSPACE_COMMANDS = ("tests/workspace", "tests/cli/workspace", "tests/agent_image/tools/workspace")
_NO_RESTART = "--max-worker-restart=0"
"""A crash of a worker ends the ring. pytest-xdist may restart the test that crashes for ever, or wait."""
_IN_ORDER = ("--no-loadscope-reorder",)
"""Files start in the order of collection, in which long files are first. Otherwise files with few tests start last."""
_FEWER_EXAMPLES = "--hypothesis-profile=gate"
"""The profile of `tests.support.examples`, which is not imported here because it imports hypothesis."""
CONTROL_PLANE_PROGRAMS = (*CONTROL_PLANE, "helm", "kubectl")


@dataclass(frozen=True)
class Ring:
    name: str
    command: Sequence[str]
    quiet_seconds: float
    """The duration on two quiet cores. The ceiling of the ring is a multiple of it."""
    least_ceiling_seconds: float = 600.0
    """The ceiling is never below this, because a short ring runs beside long ones that slow it down."""
    whole: Sequence[str] = ()
    """The command that runs everything, if the gate runs a part."""
    whole_seconds: float = 0.0
    repeats: bool = True
    """True if a failure may have another cause than the code, so that it is repeated."""
    builds: bool = False
    """True if it builds programs of the rings in later stages, which do not run if it fails."""
    yields: bool = False
    """True if it only computes, so that rings beside it, which wait for processes of their own, come first."""
    after: Sequence[str] = ()
    """The rings of the same stage that end first."""
    is_recorded: bool = True
    """False if a later run needs it on the same tree too, because what it has built may be gone."""

    @property
    def ceiling_seconds(self) -> float:
        """The time after which the ring has failed, on a machine as fast as the reference."""
        return max(self.quiet_seconds * RING_MARGIN, self.least_ceiling_seconds)

    @property
    def is_pytest(self) -> bool:
        return tuple(self.command[: len(PYTEST)]) == PYTEST

    def to_whole_ring(self) -> "Ring":
        """Return the ring with everything that it contains, as `make test-all` runs it."""
        return replace(
            self, command=self.whole or self.command, quiet_seconds=self.whole_seconds or self.quiet_seconds, whole=()
        )


def _pytest_ring(
    name: str,
    *folders: str,
    workers: int,
    quiet_seconds: float,
    whole_seconds: float,
    mark: str = "",
    options: Sequence[str] = ("--dist", "loadfile"),
    yields: bool = False,
    after: Sequence[str] = (),
) -> Ring:
    def command(*marks: str) -> tuple[str, ...]:
        selection = ("-m", " and ".join(marks)) if marks else ()
        return (*PYTEST, "-n", str(workers), _NO_RESTART, *options, *selection, *folders)

    chosen = (mark,) if mark else ()
    # Only `tests/conftest.py` registers the profile.
    profile = (_FEWER_EXAMPLES,) if not any(folder.startswith("e2e/") for folder in folders) else ()
    return Ring(
        name,
        (*command(*chosen, "not exhaustive"), *profile),
        quiet_seconds,
        whole=command(*chosen),
        whole_seconds=whole_seconds,
        yields=yields,
        after=after,
    )


def _folders_except(*folders: str) -> tuple[str, ...]:
    """Return the arguments that select every folder without a cluster, except these."""
    # pytest collects a folder that is an argument, even if it is also ignored.
    named = [folder for folder in _WITHOUT_CLUSTER if folder not in folders]
    return *named, *(
        f"--ignore={folder}" for folder in folders if folder.startswith(tuple(f"{each}/" for each in named))
    )


RINGS = {
    ring.name: ring
    for ring in (
        Ring("static", (*_MAKE, "lint", "types", "layers"), 60, repeats=False, yields=True),
        _pytest_ring(
            "unit", *_WITHOUT_CLUSTER, workers=2, mark="not process", quiet_seconds=120, whole_seconds=180, yields=True
        ),
        # These tests run commands that use whole processors and much memory, so only rings that yield, and builds, run
        # beside them.
        _pytest_ring(
            "commands", *_WORKSPACE_COMMANDS, workers=2, mark="process", quiet_seconds=60, whole_seconds=120
        ),
        # The tests of these two rings wait for more than half of their time, so two processors suffice for six workers.
        # Each worker imports all modules of its ring, so they are two rings.
        _pytest_ring(
            "agent",
            "tests/agent_image",
            *(f"--ignore={folder}" for folder in _WORKSPACE_COMMANDS if folder.startswith("tests/agent_image")),
            workers=4,
            mark="process",
            options=("--dist", "loadfile", *_IN_ORDER),
            quiet_seconds=300,
            whole_seconds=900,
            after=("commands",),
        ),
        _pytest_ring(
            "process",
            *_folders_except("tests/agent_image", "tests/charts", *_WORKSPACE_COMMANDS),
            workers=2,
            mark="process",
            options=("--dist", "loadfile", *_IN_ORDER),
            quiet_seconds=300,
            whole_seconds=600,
            after=("commands",),
        ),
        # The first run builds helm for minutes, and no other ring waits for it.
        _pytest_ring(
            "charts",
            "tests/charts",
            workers=1,
            mark="process",
            quiet_seconds=30,
            whole_seconds=30,
            after=("commands", "helm"),
        ),
        Ring("demo", (*_MAKE, "demo"), 20, after=("commands",)),
        Ring("team", (*_MAKE, "demo", "TEAM=1"), 20, after=("commands",)),
        Ring(
            "helm",
            (*_PYTHON_MODULE, "e2e.cluster", "binaries", "helm", "prometheus"),
            240,
            repeats=False,
            is_recorded=False,
        ),
        # The first run builds Kubernetes.
        Ring(
            "programs",
            (*_PYTHON_MODULE, "e2e.cluster", "binaries"),
            900,
            repeats=False,
            builds=True,
            is_recorded=False,
        ),
        # Each worker of these rings has control planes and operators of its own, which need whole processors.
        _pytest_ring("controlplane", "tests/controlplane", workers=2, quiet_seconds=300, whole_seconds=600),
        _pytest_ring(
            "faults", "tests/faults", workers=2, options=("--dist", "worksteal"), quiet_seconds=240, whole_seconds=900
        ),
        # The gate runs fixed samples.
        Ring(
            "sweep",
            (*_PYTHON_MODULE, "e2e.faults", "--share", "0.25"),
            180,
            whole=(*_PYTHON_MODULE, "e2e.faults"),
            whole_seconds=450,
        ),
        Ring(
            "walk",
            (*_PYTHON_MODULE, "e2e.walk", "--every", "10", "--walks", "4", "--seed", "4"),
            60,
            whole=(*_PYTHON_MODULE, "e2e.walk", "--seed", "4"),
            whole_seconds=600,
        ),
        # These tests wait for pods and share one cluster. One worker runs a whole module.
        _pytest_ring(
            "cluster",
            "e2e/scenarios",
            workers=3,
            options=("--dist", "loadfile", *_IN_ORDER),
            quiet_seconds=300,
            whole_seconds=900,
        ),
        Ring("bench", (*_MAKE, "bench-smoke"), 360, repeats=False),
    )
}  # fmt: skip

_CONTROL_PLANE_BUILD = replace(RINGS["programs"], command=(*RINGS["programs"].command, *CONTROL_PLANE_PROGRAMS))
_NEED_CONTROL_PLANE = frozenset({"controlplane", "faults", "sweep", "walk"})
Stages = tuple[tuple[str, ...], ...]
_TEST: Stages = (("commands", "helm", "static", "agent", "process", "charts", "unit", "demo", "team"),)
_TEST_CLUSTER: Stages = (("programs",), ("controlplane",), ("sweep",), ("faults", "walk", "cluster"))
_TEST_ALL: Stages = (*_TEST, *_TEST_CLUSTER, ("bench",))
RUNS: dict[str, Stages] = {
    "check": (("static", "unit"),),
    "test": _TEST,
    "test-cluster": _TEST_CLUSTER,
    "test-all": _TEST_ALL,
}
"""The rings of each run. Stages follow each other. The rings of a stage run at the same time, but wait for those that
they name in `after`."""


def _extend_ceilings(stage: Sequence[Ring]) -> list[Ring]:
    """Return the rings of a stage. Those that yield may wait for all others, so their ceiling ends last."""
    latest = max(_latest_end(ring, stage) for ring in stage)
    return [replace(ring, least_ceiling_seconds=latest) if ring.yields else ring for ring in stage]


def _latest_end(ring: Ring, stage: Sequence[Ring]) -> float:
    """Return the seconds from the start of the stage to the ceiling of a ring that starts as late as it can."""
    starts = [_latest_end(first, stage) for first in stage if first.name in ring.after]
    return max(starts, default=0.0) + ring.ceiling_seconds


def select_stages(names: Sequence[str]) -> list[list[Ring]]:
    """Return the rings of a run, or the whole of each named ring, one after the other.

    Raises:
        ValueError: if a name is neither a run nor a ring. The message lists all of them.
    """
    if len(names) == 1 and names[0] in RUNS:
        whole = names[0] == "test-all"
        stages = [[RINGS[name].to_whole_ring() if whole else RINGS[name] for name in stage] for stage in RUNS[names[0]]]
        return [_extend_ceilings(stage) for stage in stages]
    if unknown := [name for name in names if name not in RINGS]:
        if unknown[0] in RUNS:
            raise ValueError(f"{unknown[0]!r} is a run of many rings; give it alone, or name rings only")
        raise ValueError(
            f"{unknown[0]!r} is not a ring of tests; choose one of the runs {', '.join(RUNS)}, "
            f"or some of the rings {', '.join(RINGS)}"
        )
    # A build would reach the ceilings of the tests, so it is a stage of its own.
    first = [[_CONTROL_PLANE_BUILD]] if _NEED_CONTROL_PLANE & {*names} else []
    return [*first, *([RINGS[name].to_whole_ring()] for name in dict.fromkeys(names))]
