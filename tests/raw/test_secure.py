"""TLS, API keys and roles: who is let in, who may do what, and what changes while clients are connected."""

import json
import os
import signal
import socket
import ssl
import subprocess
import threading
import time
import urllib.error
import urllib.request

import grpc

from lib import actions as act
from lib.certs import Certs
from lib.client import Client, expect_error
from lib.proto import METHODS, methods_of, pb
from lib.runner import limit, serial
from lib.server import Server, ServerDied, binary, eventually

ADMIN = methods_of("perdure.v1.Admin")


def perdure(*args, status=0):
    got = subprocess.run([binary(), *args], capture_output=True, text=True, timeout=60)
    assert got.returncode == status, (args, got)
    return got.stderr if status else got.stdout


class Keys:
    """A file of keys, written by the command."""

    def __init__(self, folder):
        self.path = os.path.join(folder, "keys")
        self.ids = {}

    def create(self, roles, hubs="*"):
        made = json.loads(perdure("key", "create", "--api-keys", self.path, "--roles", roles, "--hubs", hubs,
                                  "--json"))
        self.ids[made["key"]] = made["id"]
        return made["key"]

    def revoke(self, key):
        perdure("key", "revoke", self.ids[key], "--api-keys", self.path)


def bearer(key):
    return [("authorization", "Bearer " + key)]


def server_with_keys(t, extra=(), **kw):
    """(server, keys): the file has one key, so that it is there."""
    s = t.own_server(start=False, **kw)
    keys = Keys(s.dir)
    keys.first = keys.create("admin")
    s.extra += ["--api-keys", keys.path, *extra]
    return s.start(), keys


def metric(text, name):
    return next(float(line.split()[-1]) for line in text.splitlines() if line.startswith(name + " ")
                or line.startswith(name + "{"))


# ---- TLS ------------------------------------------------------------------------------------------


def connect(address, context, name="localhost"):
    host, port = address.rsplit(":", 1)
    return context.wrap_socket(socket.create_connection((host, int(port)), timeout=20), server_hostname=name)


# checklist: 3
def test_a_whole_orchestration_over_tls(t):
    certs = t.later(Certs())
    s = t.own_server(extra=certs.flags())
    c = t.client(credentials=certs.credentials())
    w = t.worker(credentials=certs.credentials())
    big = "x" * 3_000_000
    id = c.start("o", input=big)
    item = w.turn(id=id)
    assert item.started.input.value == big
    w.done(item, act.complete(result=big))
    assert c.wait(id).output.value == big
    assert certs.get(s, "/healthz") == (200, "ok\n")
    assert certs.get(s, "/readyz") == (200, "ready\n")


# checklist: 3
def test_versions_and_protocols(t):
    certs = t.later(Certs())
    s = t.own_server(extra=certs.flags())
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        for address, alpn in ((s.target, "h2"), (s.http[0], "http/1.1")):
            context = certs.context(alpn=["other", alpn])
            context.minimum_version = context.maximum_version = version
            with connect(address, context) as k:
                assert k.selected_alpn_protocol() == alpn, (version, alpn)
    for address, alpn in ((s.target, "http/1.1"), (s.http[0], "h2")):
        try:
            with connect(address, certs.context(alpn=[alpn])) as k:
                raise AssertionError("%s was spoken on %s" % (k.selected_alpn_protocol(), address))
        except (ssl.SSLError, ConnectionError) as e:
            assert "ALERT" in str(e).upper() or isinstance(e, ConnectionError), e
    old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    old.check_hostname, old.verify_mode = False, ssl.CERT_NONE
    old.set_ciphers("ALL:@SECLEVEL=0")
    old.minimum_version = old.maximum_version = ssl.TLSVersion.TLSv1_1
    for address in (s.target, s.http[0]):
        try:
            connect(address, old).close()
            raise AssertionError("TLS 1.1 was spoken")
        except (ssl.SSLError, ConnectionError):
            pass


def test_plaintext_is_told_apart(t):
    """Who speaks no TLS is dropped, which is logged once in a while and counted; nobody else notices."""
    certs = t.later(Certs())
    s = t.own_server(extra=certs.flags())
    c = t.client(credentials=certs.credentials())
    for _ in range(20):
        with socket.create_connection((s.host, s.port), timeout=20) as k:
            k.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0" * 9)
            while k.recv(4096):
                pass
    c.call("Hello")
    eventually(lambda: metric(certs.get(s, "/metrics")[1], "perdure_tls_handshakes_failed_total") == 20)
    assert s.log().count("a connection is not secured") == 1, s.log()


def test_a_handshake_that_does_not_come(t):
    """A connection that says nothing is closed after 10 s."""
    certs = t.later(Certs())
    s = t.own_server(extra=certs.flags())
    with socket.create_connection((s.host, s.port), timeout=30) as k:
        begun = time.monotonic()
        assert k.recv(10) == b""
        assert time.monotonic() - begun > 5


def test_client_certificates(t):
    certs = t.later(Certs())
    s = t.own_server(extra=certs.flags(client_ca=True))
    c = t.client(credentials=certs.credentials("client"))
    w = t.worker(credentials=certs.credentials("client"))
    id = c.start("o")
    w.done(w.turn(id=id), act.complete())
    assert c.wait(id)
    for show in (None, "stranger"):
        bad = t.later(Client(s, "h", credentials=certs.credentials(show)))
        try:
            bad.stub("Hello")(METHODS["Hello"].request(), timeout=3)
            raise AssertionError("a certificate of nobody's was taken")
        except grpc.RpcError as e:
            assert e.code().name in ("UNAVAILABLE", "DEADLINE_EXCEEDED"), e
        try:
            certs.get(s, "/healthz", show=show)
            raise AssertionError("a certificate of nobody's was taken")
        except (urllib.error.URLError, ConnectionError, ssl.SSLError):
            pass
    assert certs.get(s, "/healthz", show="client")[0] == 200
    c.call("Hello")


def refused(t, *flags, says):
    s = Server(extra=flags)
    try:
        s.start()
    except ServerDied:
        assert s.process.returncode == 2, s.log()
        for word in says:
            assert word in s.log(), (word, s.log())
        return
    finally:
        s.close()
    raise AssertionError("it started with %s" % (flags,))


def test_bad_files_are_refused_at_the_start(t):
    certs = t.later(Certs())
    server, key = certs.path("server.pem"), certs.path("server.key")
    with open(certs.path("text"), "w") as f:
        f.write("hello\n")
    refused(t, "--tls-cert", certs.path("none"), "--tls-key", key, says=["none", "No such file"])
    refused(t, "--tls-cert", certs.path("text"), "--tls-key", key, says=["text", "holds no certificate"])
    refused(t, "--tls-cert", server, "--tls-key", certs.path("client.key"),
            says=["client.key", "is not that of the certificate"])
    refused(t, "--tls-cert", server, "--tls-key", key, "--tls-client-ca", certs.path("text"),
            says=["CA file", "text", "holds no certificate"])
    refused(t, "--api-keys", certs.path("text"), says=["text", "line 1: the id must be"])
    refused(t, "--api-keys", certs.path("none"), says=["none", "No such file", "perdure key create"])


# reports: BL-132
def test_beyond_loopback(t):
    """With encryption and authentication it needs no --insecure, and nothing is warned of."""
    certs = t.later(Certs())
    everywhere = ["0.0.0.0:0"]
    s, keys = server_with_keys(t, certs.flags(), listen=everywhere)
    assert "beyond loopback" not in s.log()
    port = s.target.rsplit(":", 1)[1]
    c = t.later(Client("127.0.0.1:" + port, "h", headers=bearer(keys.first), credentials=certs.credentials()))
    assert c.start("o")
    m = t.own_server(extra=certs.flags(client_ca=True), listen=everywhere)
    assert "beyond loopback" not in m.log()
    w = t.own_server(extra=certs.flags() + ["--insecure=anonymous"], listen=everywhere)
    assert "without=authentication" in w.log(), w.log()


# ---- roles ----------------------------------------------------------------------------------------

OPEN = {"Hello", "Check", "Watch", "/healthz", "/readyz"}
READS = {"GetInstance", "WaitForInstanceStart", "WaitForInstanceCompletion", "QueryInstances", "ListInstanceIds",
         "GetEntity", "QueryEntities", "StreamInstanceHistory", "Workers", "Status", "/metrics"}
CHANGES = {"StartInstance", "RaiseEvent", "SuspendInstance", "ResumeInstance", "TerminateInstance",
           "RestartInstance", "RewindInstance", "SignalEntity", "PurgeInstances"}
WORKS = {"GetWorkItems", "CompleteActivityTask", "CompleteOrchestratorTask", "CompleteEntityTask",
         "AbandonTaskActivityWorkItem", "AbandonTaskOrchestratorWorkItem", "AbandonTaskEntityWorkItem",
         "StreamInstanceHistory"}
MAY = {"read": OPEN | READS, "client": OPEN | READS | CHANGES, "worker": OPEN | WORKS}
ALL_HUBS = set(ADMIN)
NO_HUB = OPEN | {"/metrics"} | ALL_HUBS


def paths():
    return ({name: m.path for name, m in METHODS.items()}
            | {name: m.path for name, m in ADMIN.items()}
            | {name: "/grpc.health.v1.Health/" + name for name in ("Check", "Watch")})


def may(role, what):
    return role == "admin" or what in MAY[role]


def is_answered(h, path, headers, hub):
    """UNAUTHENTICATED, PERMISSION_DENIED, or "yes" for anything else. Streams that stay open end by time-out."""
    s = h.start(path, b"", headers=headers, timeout="300m", hub=hub)
    h.pump(lambda: s.over, 20)
    code = s.status[0]
    return code if code in ("UNAUTHENTICATED", "PERMISSION_DENIED") else "yes"


def walk(t, h, server, headers, expected, who):
    """Every RPC and route: `expected(name)` is what it must be answered."""
    for name, path in paths().items():
        got = is_answered(h, path, headers, "shop")
        assert got == expected(name), "%s for %s: %s, not %s" % (name, who, got, expected(name))
    for route in ("/healthz", "/readyz", "/metrics"):
        request = urllib.request.Request("http://%s%s" % (server.http[0], route))
        for k, v in headers:
            request.add_header(k, v)
        try:
            status = urllib.request.urlopen(request, timeout=20).status
        except urllib.error.HTTPError as e:
            status = e.code
            assert (e.headers["WWW-Authenticate"] == "Bearer") == (status == 401)
        wanted = {"yes": 200, "UNAUTHENTICATED": 401, "PERMISSION_DENIED": 403}[expected(route)]
        assert status == wanted, "%s for %s: %s, not %s" % (route, who, status, wanted)


# reports: BL-135
@limit(180)
def test_every_call_with_every_role(t):
    s, keys = server_with_keys(t)
    h = t.h2()
    stranger = lambda name: "yes" if name in OPEN else "UNAUTHENTICATED"
    walk(t, h, s, [], stranger, "nobody")
    walk(t, h, s, bearer("x"), stranger, "a made-up key")
    walk(t, h, s, [("authorization", "Basic x")], stranger, "another scheme")
    for role in ("read", "client", "worker", "admin"):
        every, shop, other = keys.create(role), keys.create(role, "shop,office"), keys.create(role, "office")
        eventually(lambda: is_answered(h, METHODS["GetInstance"].path, bearer(other), "office")
                   != "UNAUTHENTICATED", 10)
        own = lambda name: "yes" if may(role, name) else "PERMISSION_DENIED"
        some = lambda name: "PERMISSION_DENIED" if name in ALL_HUBS else own(name)
        walk(t, h, s, bearer(every), own, role)
        walk(t, h, s, bearer(shop), some, role + " of the hub")
        walk(t, h, s, bearer(other), lambda name: some(name) if name in NO_HUB else "PERMISSION_DENIED",
             role + " of another hub")


@limit(120)
def test_every_call_with_a_certificate(t):
    """A certificate without a key has auth.cert_roles; a key beside it has its own; a bad key none."""
    certs = t.later(Certs())
    s, keys = server_with_keys(t, certs.flags(client_ca=True))
    admin = keys.first
    calls = {name: path for name, path in paths().items() if name not in ("Watch", "GetWorkItems")}
    with grpc.secure_channel(s.target, certs.credentials("client")) as channel:
        def answer(path, headers):
            call = channel.unary_stream(path)(b"", timeout=5, metadata=headers + [("taskhub", "shop")],
                                              wait_for_ready=True)
            try:
                for _ in call:
                    pass
                return "yes"
            except grpc.RpcError as e:
                return e.code().name if e.code().name in ("UNAUTHENTICATED", "PERMISSION_DENIED") else "yes"

        for name, path in calls.items():
            if name.startswith("Wait"):
                continue # an empty id is refused at once, but as any call with a deadline it is covered above
            wanted = "yes" if may("client", name) or may("worker", name) else "PERMISSION_DENIED"
            assert answer(path, []) == wanted, (name, answer(path, []))
            assert answer(path, bearer(admin)) == "yes", name
            assert answer(path, bearer("x")) == ("yes" if name in OPEN else "UNAUTHENTICATED"), name
    assert certs.get(s, "/metrics", show="client")[0] == 200
    assert certs.get(s, "/metrics", show="client", key="x")[0] == 401
    w = t.own_server({"auth.cert_roles": "worker"}, extra=certs.flags(client_ca=True))
    assert certs.get(w, "/metrics", show="client")[0] == 403
    c = t.client(server=w, credentials=certs.credentials("client"))
    expect_error(lambda: c.start("o"), "PERMISSION_DENIED", contains="auth.cert_roles")


def test_purge_by_filter_is_for_admins(t):
    s, keys = server_with_keys(t)
    filter = pb.PurgeInstancesRequest(purgeInstanceFilter=pb.PurgeInstanceFilter())
    client = t.client(headers=bearer(keys.create("client,worker,read")))
    eventually(lambda: client.error("PurgeInstances", filter)[0] != "UNAUTHENTICATED", 10)
    expect_error(lambda: client.call("PurgeInstances", filter), "PERMISSION_DENIED", contains="admin")
    client.purge("nobody")
    admin = t.client(headers=bearer(keys.first))
    try:
        admin.call("PurgeInstances", filter)
    except grpc.RpcError as e:
        assert e.code().name != "PERMISSION_DENIED", e


def test_a_refused_completion_touches_no_item(t):
    """The worker that holds the item keeps it, whoever answers in its place without being allowed to."""
    s, keys = server_with_keys(t)
    w = t.worker(headers=bearer(keys.first))
    c = t.client(headers=bearer(keys.first))
    id = c.start("o")
    item = w.turn(id=id)
    answer = w.response(item, [act.complete(result="of a stranger")])
    reader = keys.create("read,client")
    eventually(lambda: t.client(headers=bearer(reader)).error("CompleteOrchestratorTask", answer)[0]
               == "PERMISSION_DENIED", 10)
    for headers, code in (([], "UNAUTHENTICATED"), (bearer("x"), "UNAUTHENTICATED")):
        expect_error(lambda: t.client(headers=headers).call("CompleteOrchestratorTask", answer), code)
        bad = pb.AbandonOrchestrationTaskRequest(completionToken=item.token)
        expect_error(lambda: t.client(headers=headers).call("AbandonTaskOrchestratorWorkItem", bad), code)
    w.none(0.5)
    w.done(item, act.complete(result="of the worker"))
    assert c.wait(id).output.value == "of the worker"


def test_messages_name_the_remedy(t):
    s, keys = server_with_keys(t)
    key = keys.create("read", "shop")
    c = t.client(hub="shop")
    expect_error(lambda: c.get("x"), "UNAUTHENTICATED",
                 "GetInstance takes an API key: send the header authorization: Bearer KEY")
    c.metadata = [("taskhub", "shop"), ("authorization", "Basic eDp5")]
    expect_error(lambda: c.get("x"), "UNAUTHENTICATED",
                 "the authorization header is not of the form: Bearer KEY")
    c.metadata = [("taskhub", "shop")] + bearer(key[:-1] + ("0" if key[-1] != "0" else "1"))
    expect_error(lambda: c.get("x"), "UNAUTHENTICATED",
                 "the API key is not known here: it was mistyped or revoked")
    c.metadata = [("taskhub", "Shop")] + bearer(key)
    eventually(lambda: c.error("SuspendInstance", pb.SuspendRequest(instanceId="x"))[0] == "PERMISSION_DENIED", 10)
    assert c.get("x") is None
    id = keys.ids[key]
    expect_error(lambda: c.start("o"), "PERMISSION_DENIED",
                 "the key %s has the roles read; StartInstance takes one of client,admin" % id)
    c.metadata = bearer(key)
    expect_error(lambda: c.get("x"), "PERMISSION_DENIED", "the key %s is not for the task hub 'default'" % id)
    assert key not in s.log() and key[-64:] not in s.log()


# ---- what changes ---------------------------------------------------------------------------------


def test_a_revoked_key_ends_streams_and_waits(t):
    s, keys = server_with_keys(t)
    gone, kept = keys.create("client,worker"), keys.create("client,worker")
    c, d = t.client(headers=bearer(gone)), t.client(headers=bearer(kept))
    eventually(lambda: d.error("SuspendInstance", pb.SuspendRequest(instanceId="none"))[0] == "NOT_FOUND", 10)
    w = t.worker(headers=bearer(gone)).ready()
    id = c.start("o")
    item = w.turn(id=id)
    other = t.worker(headers=bearer(kept)).ready()
    waits = [c.future("WaitForInstanceCompletion", pb.GetInstanceRequest(instanceId=id)) for _ in range(3)]
    waits.append(c.future("WaitForInstanceStart", pb.GetInstanceRequest(instanceId="never")))
    stays = d.future("WaitForInstanceCompletion", pb.GetInstanceRequest(instanceId=id, getInputsAndOutputs=True))
    eventually(lambda: metric(fetch(s, kept), "perdure_waiters") == 5)

    begun = time.monotonic()
    keys.revoke(gone)
    assert w.wait_end(10)[0] == "UNAUTHENTICATED", w.status
    for one in waits:
        try:
            one.result(timeout=10)
            raise AssertionError("a wait was answered")
        except grpc.RpcError as e:
            assert e.code().name == "UNAUTHENTICATED" and "revoked" in e.details(), e
    took = time.monotonic() - begun
    assert took < 5, took
    expect_error(lambda: c.get(id), "UNAUTHENTICATED")
    # What the revoked worker held is given to another; the other key's wait has lost nothing.
    again = other.turn(id=id)
    assert again.token != item.token
    other.done(again, act.complete(result="of the other"))
    assert stays.result(timeout=20).orchestrationState.output.value == "of the other"
    eventually(lambda: metric(fetch(s, kept), "perdure_waiters") == 0)


def fetch(server, key, path="/metrics"):
    request = urllib.request.Request("http://%s%s" % (server.http[0], path))
    request.add_header("Authorization", "Bearer " + key)
    return urllib.request.urlopen(request, timeout=20).read().decode()


def test_a_request_that_is_on_its_way(t):
    """A request of a revoked key that has not wholly come is refused too."""
    s, keys = server_with_keys(t)
    gone = keys.create("client")
    h = t.h2()
    eventually(lambda: is_answered(h, METHODS["StartInstance"].path, bearer(gone), None) == "yes", 10)
    half = h.open(METHODS["StartInstance"].path, bearer(gone))
    h.data(half, b"\0\0\0\0\x10" + b"\n\x01x", end=False)
    assert h.alive()
    keys.revoke(gone)
    h.pump(lambda: half.over or half.status, 10)
    assert half.status[0] == "UNAUTHENTICATED", half.status


def test_a_bad_file_changes_nothing(t):
    s, keys = server_with_keys(t)
    c = t.client(headers=bearer(keys.first))
    w = t.worker(headers=bearer(keys.first)).ready()
    text = open(keys.path).read()
    for bad in ("rubbish\n", text + "rubbish\n"):
        with open(keys.path + ".new", "w") as f:
            f.write(bad)
        before = s.log().count("were not reread")
        os.replace(keys.path + ".new", keys.path)
        eventually(lambda: s.log().count("were not reread") > before, 10)
        c.start("o")
    os.unlink(keys.path)
    eventually(lambda: s.log().count("were not reread") == 3, 10)
    c.start("o")
    time.sleep(2.5) # longer than two looks at the file
    assert s.log().count("were not reread") == 3, s.log()
    assert w.turn()
    assert metric(fetch(s, keys.first), 'perdure_api_keys_rereads_total{result="failed"}') == 3
    s.signal(signal.SIGHUP)
    eventually(lambda: s.log().count("were not reread") == 4, 10)


@limit(120)
@serial
def test_certificates_rotate_under_load(t):
    """New connections see the new certificate, those that are open go on, and no call fails."""
    certs = t.later(Certs())
    s = t.own_server(extra=certs.flags())
    credentials = certs.credentials()
    stop, failures, done = threading.Event(), [], [0, 0]

    def steady(hub):
        c = Client(s, hub, credentials=credentials)
        while not stop.is_set():
            try:
                c.start("o")
                done[0] += 1
            except grpc.RpcError as e:
                failures.append(e)
        c.close()

    def fresh(hub):
        while not stop.is_set():
            c = Client(s, hub, credentials=credentials)
            try:
                c.stub("Hello")(METHODS["Hello"].request(), timeout=20)
                done[1] += 1
            except grpc.RpcError as e:
                failures.append(e)
            c.close()

    w = t.worker(credentials=credentials).ready()
    old = connect(s.target, certs.context(alpn=["h2"]))
    first = certs.serial()
    assert old.getpeercert(True) == first
    threads = [threading.Thread(target=f, args=("load%d" % i,)) for i, f in enumerate([steady, steady, fresh, fresh])]
    for thread in threads:
        thread.start()
    try:
        for days in (25, 15, 10):
            certs.sign("server", "ca", days)
            s.signal(signal.SIGHUP)
            eventually(lambda: connect(s.target, certs.context(alpn=["h2"])).getpeercert(True) == certs.serial())
            assert connect(s.http[0], certs.context()).getpeercert(True) == certs.serial()
            ends = metric(certs.get(s, "/metrics")[1], "perdure_tls_certificate_expiry_timestamp_seconds")
            assert abs(ends - time.time() - days * 86400) < 86400, (ends, days)
            before = list(done)
            eventually(lambda: done[0] > before[0] + 20 and done[1] > before[1] + 5)
        # A pair that does not fit: the one before stays, and it is said once.
        good = certs.serial()
        key = certs.read("server.key")
        with open(certs.path("server.key"), "wb") as f:
            f.write(certs.read("client.key"))
        s.signal(signal.SIGHUP)
        eventually(lambda: "those before stay" in s.log())
        assert connect(s.target, certs.context(alpn=["h2"])).getpeercert(True) == good
        assert s.log().count("those before stay") == 1, s.log()
        metrics = certs.get(s, "/metrics")[1]
        assert metric(metrics, 'perdure_tls_rereads_total{result="ok"}') == 3
        assert metric(metrics, 'perdure_tls_rereads_total{result="failed"}') == 1
        with open(certs.path("server.key"), "wb") as f:
            f.write(key)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert not failures, failures[:3]
    assert old.getpeercert(True) == first != certs.serial()
    old.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0")
    assert old.recv(9)[3] == 4 # SETTINGS
    id = t.client(credentials=credentials).start("o")
    assert w.turn(id=id) # on the stream of the first certificate


def test_another_client_ca(t):
    """SIGHUP rereads the client CA too: certificates of the old one no longer open a connection."""
    certs = t.later(Certs())
    s = t.own_server(extra=certs.flags(client_ca=True))
    assert certs.get(s, "/healthz", show="client")[0] == 200
    with open(certs.path("both"), "wb") as f:
        f.write(certs.read("other-ca.pem"))
    authority = certs.read("ca.pem")
    os.replace(certs.path("both"), certs.path("ca.pem"))
    s.signal(signal.SIGHUP)
    eventually(lambda: "certificates reread" in s.log())
    with open(certs.path("ca.pem"), "wb") as f:
        f.write(authority) # for the client's own look at the server
    assert certs.get(s, "/healthz", show="stranger")[0] == 200
    try:
        certs.get(s, "/healthz", show="client")
        raise AssertionError("the old CA is still trusted")
    except (urllib.error.URLError, ConnectionError, ssl.SSLError):
        pass


# ---- the command ----------------------------------------------------------------------------------


def test_the_command_over_tls_with_a_key(t):
    certs = t.later(Certs())
    s, keys = server_with_keys(t, certs.flags(client_ca=True), settings={"auth.cert_roles": "client"})
    at = ["--server", "localhost:%d" % s.port]
    tls = ["--tls-ca", certs.path("ca.pem"), "--tls-cert", certs.path("client.pem"),
           "--tls-key", certs.path("client.key")]
    with open(certs.path("key"), "w") as f:
        f.write(keys.first + "\n")
    key = ["--api-key", "@" + certs.path("key")]
    id = perdure("start", "o", *at, *tls).strip()
    assert json.loads(perdure("get", id, "--json", *at, *tls))
    assert "perdure" in perdure("status", *at, *tls, *key)
    assert "mistyped or revoked" in perdure("status", *at, *tls, "--api-key", "pdk_x", status=1)
    assert "handshake" in perdure("status", *at, "--tls-ca", certs.path("ca.pem"), status=6)
    other = ["--tls-ca", certs.path("other-ca.pem"), *tls[2:]]
    said = perdure("status", *at, *other, status=6)
    assert "handshake failed: unable to" in said, said
    elsewhere = ["--server", "127.0.0.2:%d" % s.port]
    assert "could not connect" in perdure("status", *elsewhere, *tls, status=6)
    assert "plaintext" in perdure("status", "--server", "http://localhost:%d" % s.port, *tls, status=2)
    assert "without --tls-key" in perdure("status", *at, *tls[:4], status=2)
    env = {**os.environ, "PERDURE_SERVER": "https://localhost:%d" % s.port, "PERDURE_TLS_CA": certs.path("ca.pem"),
           "PERDURE_TLS_CERT": certs.path("client.pem"), "PERDURE_TLS_KEY": certs.path("client.key"),
           "PERDURE_API_KEY": keys.first}
    got = subprocess.run([binary(), "status"], env=env, capture_output=True, text=True, timeout=60)
    assert got.returncode == 0, got
    bench = subprocess.run([binary(), "bench", "hello1", "--warmup", "10", "--count", "50", "--json"], env=env,
                           capture_output=True, text=True, timeout=60)
    assert bench.returncode == 0, bench
