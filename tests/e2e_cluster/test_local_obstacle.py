"""What keeps the local cluster from running in a container without privileges."""

import pytest
from e2e.cluster.local import list_missing_capabilities


@pytest.mark.parametrize(
    ("bits", "missing"),
    [
        pytest.param("000001ffffffffff", [], id="root of a machine"),
        pytest.param("00000000a80425fb", ["CAP_NET_ADMIN", "CAP_SYS_ADMIN"], id="the default of docker"),
        pytest.param("00000000a80435fb", ["CAP_SYS_ADMIN"], id="with --cap-add=NET_ADMIN"),
    ],
)
def test_list_missing_capabilities_reads_the_effective_set(bits: str, missing: list[str]) -> None:
    status = f"Name:\tpython3\nCapInh:\t0000000000000000\nCapPrm:\t000001ffffffffff\nCapEff:\t{bits}\n"
    assert list_missing_capabilities(status) == missing
