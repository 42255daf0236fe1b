"""TLS and tokens."""
import hashlib
import shutil
import subprocess

import numpy as np
import pytest

import softmax_client

X = np.zeros((2, 5), np.float32)


@pytest.fixture
def secured(tmp_path, own_server):
    """(server, Tls that trusts it); the token is open-sesame."""
    if not shutil.which("openssl"):
        pytest.skip("no openssl")
    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                    "-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1",
                    "-keyout", key, "-out", certificate], check=True, capture_output=True)
    key.chmod(0o600)
    (tmp_path / "tokens").write_text(hashlib.sha256(b"open-sesame").hexdigest() + "\n")
    (tmp_path / "tokens").chmod(0o600)
    server = own_server("--tls-cert", str(certificate), "--tls-key", str(key),
                        "--token-file", str(tmp_path / "tokens"))
    return server, softmax_client.Tls.from_files(str(certificate))


def test_tls_and_a_token(secured):
    server, tls = secured
    asked = []

    def token():
        asked.append(1)
        return "open-sesame"

    for given in ("open-sesame", token):
        with softmax_client.Client(server.address, tls=tls, token=given) as client:
            assert np.allclose(client.softmax(X), 0.2)
            assert np.allclose(client.softmax_batch([X])[0], 0.2)
    assert len(asked) == 2


def test_a_wrong_token_and_an_untrusted_certificate(secured, capfd):
    server, tls = secured
    with softmax_client.Client(server.address, tls=tls, token="wrong") as client:
        with pytest.raises(softmax_client.AccessDeniedError):
            client.softmax(X)
    once = softmax_client.Retry(max_attempts=1)
    with softmax_client.Client(server.address, tls=True, token="open-sesame", retry=once) as client:
        with pytest.raises(softmax_client.UnavailableError, match="certificate"):
            client.softmax(X)

    def broken():
        raise RuntimeError("no token today")

    with softmax_client.Client(server.address, tls=tls, token=broken) as client:
        with pytest.raises(softmax_client.InvalidArgumentError, match="bearer_token"):
            client.softmax(X)
    assert "open-sesame" not in repr(tls)


def test_a_token_needs_tls():
    with pytest.raises(softmax_client.InvalidArgumentError, match="bearer_token"):
        softmax_client.Client("localhost:1", token="t")
