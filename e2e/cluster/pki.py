"""Keys of a control plane: the API server's certificate, which is its own authority, and what signs its tokens.

Of nothing but loopback and private clusters of one machine; refuses to renew.
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
    """Makes the certificate and, beside it, its key, unless it is there.

    The API server would make itself one too: of RSA, which is dear where watches come and go.

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
    """Of RSA, unless it is there.

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
