"""Certificates made for a test with the openssl program, and what clients need to use them."""

import os
import shutil
import ssl
import subprocess
import tempfile
import urllib.error
import urllib.request

import grpc

NAMES = "subjectAltName=DNS:localhost,IP:127.0.0.1,IP:::1"


def _openssl(*args):
    subprocess.run(["openssl", *args], check=True, capture_output=True)


class Certs:
    """A CA with a server's and a client's certificate, and a stranger's of another CA."""

    def __init__(self):
        self.dir = tempfile.mkdtemp(prefix="perdure-certs-")
        for ca in ("ca", "other-ca"):
            _openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                     "-keyout", self.path(ca + ".key"), "-out", self.path(ca + ".pem"), "-days", "30",
                     "-subj", "/CN=" + ca)
        self.sign("server", "ca")
        self.sign("client", "ca")
        self.sign("stranger", "other-ca")

    def path(self, name):
        return os.path.join(self.dir, name)

    def read(self, name):
        with open(self.path(name), "rb") as f:
            return f.read()

    def sign(self, name, ca, days=20):
        """A new certificate with a new key; each file is replaced at once, as renewing tools do."""
        key, cert = self.path(name + ".key"), self.path(name + ".pem")
        _openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
                 "-keyout", key + ".new", "-out", cert + ".new", "-days", str(days), "-subj", "/CN=" + name,
                 "-addext", NAMES, "-addext", "basicConstraints=critical,CA:FALSE",
                 "-CA", self.path(ca + ".pem"), "-CAkey", self.path(ca + ".key"))
        os.replace(key + ".new", key)
        os.replace(cert + ".new", cert)

    def serial(self, name="server"):
        with open(self.path(name + ".pem")) as f:
            return ssl.PEM_cert_to_DER_cert(f.read())

    def flags(self, client_ca=False):
        """What `perdure serve` is told."""
        out = ["--tls-cert", self.path("server.pem"), "--tls-key", self.path("server.key")]
        return out + (["--tls-client-ca", self.path("ca.pem")] if client_ca else [])

    def credentials(self, show=None):
        """Of grpcio; `show` names the certificate to show."""
        pair = (self.read(show + ".key"), self.read(show + ".pem")) if show else (None, None)
        return grpc.ssl_channel_credentials(self.read("ca.pem"), *pair)

    def context(self, show=None, alpn=None, ca="ca"):
        """Of the ssl module."""
        c = ssl.create_default_context(cafile=self.path(ca + ".pem"))
        if show:
            c.load_cert_chain(self.path(show + ".pem"), self.path(show + ".key"))
        if alpn:
            c.set_alpn_protocols(alpn)
        return c

    def get(self, server, path, key=None, show=None):
        """HTTPS GET on the first HTTP listener: (status, text)."""
        request = urllib.request.Request("https://%s%s" % (server.http[0], path))
        if key:
            request.add_header("Authorization", "Bearer " + key)
        try:
            with urllib.request.urlopen(request, timeout=20, context=self.context(show)) as r:
                return r.status, r.read().decode()
        except urllib.error.HTTPError as e:
            return e.code, e.read().decode()

    def close(self):
        shutil.rmtree(self.dir, ignore_errors=True)
