"""The API server's certificate: its names, and that it is its own authority."""

import ipaddress

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
from e2e.cluster import pki
from e2e.cluster.progress import ClusterError

pytestmark = pytest.mark.process


def test_certify_makes_a_self_signed_certificate_for_all_names(tmp_path):
    """A certificate covers every address and name, and is self-signed."""
    file = tmp_path / "apiserver.crt"
    pki.certify(file, addresses=("10.0.0.5", "127.0.0.1", "127.0.0.1", "10.96.0.1"))
    certificate = x509.load_pem_x509_certificate(file.read_bytes())
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    addresses = ("10.0.0.5", "10.96.0.1", "127.0.0.1")
    assert names.get_values_for_type(x509.IPAddress) == [ipaddress.ip_address(address) for address in addresses]
    assert "kubernetes.default.svc" in names.get_values_for_type(x509.DNSName)
    assert certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    assert isinstance(certificate.public_key(), EllipticCurvePublicKey)
    certificate.verify_directly_issued_by(certificate)
    assert file.with_suffix(".key").stat().st_mode & 0o077 == 0


def test_pki_keeps_existing_certificates_and_keys(tmp_path):
    file, key = tmp_path / "apiserver.crt", tmp_path / "service-accounts.key"
    made = []
    for _ in range(2):
        pki.certify(file, addresses=("127.0.0.1",))
        pki.make_key(key)
        made.append((file.read_bytes(), key.read_bytes()))
    assert made[0] == made[1]


def test_certify_reports_the_error_of_openssl(tmp_path):
    with pytest.raises(ClusterError, match=r"^openssl req: (?s:.*)no address"):
        pki.certify(tmp_path / "apiserver.crt", addresses=("no address",))
