"""The login with the service account of a pod."""

import pytest

from fleetwright_kube.errors import TerminalError
from fleetwright_kube.pod_login import pod_login


@pytest.mark.parametrize(
    ("host", "server"), [("10.0.0.1", "https://10.0.0.1:6443"), ("fd00::1", "https://[fd00::1]:6443")]
)
def test_pod_login_reads_the_rotated_token_again(tmp_path, host, server):
    environ = {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": "6443"}
    for token in ("first", "second"):
        (tmp_path / "token").write_text(f"{token}\n")
        found = pod_login(environ, folder=tmp_path)
        assert found.server == server
        assert found.as_http_headers() == {"Authorization": f"Bearer {token}"}
        assert token not in repr(found)


def test_pod_login_requires_a_pod(tmp_path):
    with pytest.raises(TerminalError, match="run in a pod"):
        pod_login({"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, folder=tmp_path)
    (tmp_path / "token").write_text("token")
    with pytest.raises(TerminalError, match="run in a pod"):
        pod_login({}, folder=tmp_path)
