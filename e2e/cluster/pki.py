"""The keys of a control plane: the self-signed certificate of the API server, and the key that signs its tokens.

They serve loopback and private clusters of one machine only, and are never renewed.
"""

import subprocess
from collections.abc import Iterable
from pathlib import Path

from e2e.cluster.progress import ClusterError

_NAMES = ("kubernetes", "kubernetes.default", "kubernetes.default.svc", "localhost")
_REQUEST = """\
[req]
prompt = no
distinguished_name = subject
x509_extensions = extensions
[subject]
CN = kube-apiserver
[extensions]
basicConstraints = critical, CA:TRUE
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid:always
keyUsage = critical, digitalSignature, keyCertSign
extendedKeyUsage = serverAuth
subjectAltName = {names}
"""


def certify(certificate: Path, *, addresses: Iterable[str]) -> None:
    """Create the certificate and its key, unless they exist.

    The API server would otherwise create an RSA certificate, which is expensive if clients reconnect often.

    Raises:
        ClusterError: There is no openssl, or it says why not.
    """
    if certificate.exists():
        return
    names = [*(f"DNS:{name}" for name in _NAMES), *(f"IP:{address}" for address in sorted(set(addresses)))]
    request = certificate.with_suffix(".cnf")
    request.write_text(_REQUEST.format(names=",".join(names)))
    _openssl(
        *("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "365"),
        *("-config", request, "-keyout", certificate.with_suffix(".key"), "-out", certificate),
    )


def make_key(key: Path) -> None:
    """Create an RSA key, unless it exists.

    Raises:
        ClusterError: There is no openssl, or it says why not.
    """
    if not key.exists():
        _openssl("genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048", "-out", key)


def _openssl(*words: str | Path) -> None:
    try:
        done = subprocess.run(["openssl", *words], check=False, capture_output=True, text=True)
    except FileNotFoundError as missing:
        raise ClusterError("openssl is not installed, and makes the certificate of the API server") from missing
    if done.returncode:
        raise ClusterError(f"openssl {words[0]}: {done.stderr.strip()}")
