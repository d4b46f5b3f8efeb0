"""The "azuremanaged" layer of the SDK, with a task hub and a bearer token: an API key of ours, over plaintext and over TLS.

It trusts the system's certificates; GRPC_DEFAULT_SSL_ROOTS_FILE_PATH puts the test's CA in their place.
"""

import asyncio
import json
import os
import subprocess
import sys
import time

import pytest
from azure.core.credentials import AccessToken
from conftest import YARDSTICK, channel_options, rpc_error
from durabletask.azuremanaged.client import AsyncDurableTaskSchedulerClient, DurableTaskSchedulerClient
from durabletask.azuremanaged.worker import DurableTaskSchedulerWorker
from durabletask.grpc_options import GrpcWorkerResiliencyOptions
from harness import ROOT, binary, eventually

sys.path.insert(0, os.path.join(ROOT, "tests", "raw"))
from lib.certs import Certs  # noqa: E402

pytestmark = pytest.mark.skipif(bool(YARDSTICK), reason="needs hubs")
CERTS = Certs()
os.environ["GRPC_DEFAULT_SSL_ROOTS_FILE_PATH"] = CERTS.path("ca.pem")


@pytest.fixture(scope="module", autouse=True)
def certificates():
    yield
    CERTS.close()


class Credential:
    """Gives out what `key` is now; a token that is about to expire is asked for again by each call."""

    def __init__(self, key, lasts=3600):
        self.key = key
        self.lasts = lasts

    def get_token(self, *scopes, **kw):
        return AccessToken(self.key, int(time.time()) + self.lasts)


class AsyncCredential(Credential):
    async def get_token(self, *scopes, **kw):
        return AccessToken(self.key, int(time.time()) + self.lasts)


class Secured:
    """A server with a file of keys."""

    def __init__(self, own_server, tmp_path, is_secure):
        self.file = str(tmp_path / "keys")
        self.ids = {}
        self.key = self.create("client,worker", "shop")
        self.is_secure = is_secure
        self.server = own_server(extra=["--api-keys", self.file, *(CERTS.flags() if is_secure else [])])

    def perdure(self, *args):
        done = subprocess.run([binary(), "key", *args, "--api-keys", self.file, "--json"], check=True,
                              capture_output=True, text=True)
        return json.loads(done.stdout)

    def create(self, roles, hubs):
        made = self.perdure("create", "--roles", roles, "--hubs", hubs)
        self.ids[made["key"]] = made["id"]
        return made["key"]

    def args(self, credential, hub="shop"):
        return dict(host_address="localhost:%d" % self.server.port, taskhub=hub, token_credential=credential,
                    secure_channel=self.is_secure, channel_options=channel_options())


@pytest.fixture(params=[False, True], ids=["plaintext", "tls"])
def secured(request, own_server, tmp_path):
    return Secured(own_server, tmp_path, request.param)


def double(ctx, x):
    return x * 2


def order(ctx, x):
    doubled = yield ctx.call_activity(double, input=x)
    extra = yield ctx.wait_for_external_event("extra")
    return [doubled, extra]


@pytest.fixture
def worker(secured):
    workers = []

    def make(credential, hub="shop"):
        w = DurableTaskSchedulerWorker(
            **secured.args(credential, hub), resiliency_options=GrpcWorkerResiliencyOptions(
                reconnect_backoff_base_seconds=0.1, reconnect_backoff_cap_seconds=0.5))
        w.add_orchestrator(order)
        w.add_activity(double)
        w.start()
        workers.append(w)
        return w

    yield make
    for w in workers:
        w.stop()


def run(client, x):
    id = client.schedule_new_orchestration(order, input=x)
    client.raise_orchestration_event(id, "extra", data="more")
    return client.wait_for_orchestration_completion(id, timeout=30).get_output()


def test_a_token_opens_its_hub(secured, worker):
    worker(Credential(secured.key))
    client = DurableTaskSchedulerClient(**secured.args(Credential(secured.key)))
    try:
        for x in range(5):
            assert run(client, x) == [2 * x, "more"]
    finally:
        client.close()


def test_other_tokens_open_nothing(secured):
    for credential, hub, code in ((None, "shop", "UNAUTHENTICATED"),
                                  (Credential("eyJhbGciOi.not.ours"), "shop", "UNAUTHENTICATED"),
                                  (Credential(secured.key), "other", "PERMISSION_DENIED")):
        client = DurableTaskSchedulerClient(**secured.args(credential, hub))
        try:
            got, text = rpc_error(lambda: client.schedule_new_orchestration(order, input=1))
            assert got == code, (got, text)
        finally:
            client.close()


def test_the_asynchronous_client(secured, worker):
    worker(Credential(secured.key))

    async def go():
        client = AsyncDurableTaskSchedulerClient(**secured.args(AsyncCredential(secured.key)))
        try:
            id = await client.schedule_new_orchestration(order, input=4)
            await client.raise_orchestration_event(id, "extra", data="more")
            state = await client.wait_for_orchestration_completion(id, timeout=30)
            assert state.get_output() == [8, "more"]
        finally:
            await client.close()

    asyncio.run(go())


def test_a_key_is_replaced_while_a_worker_is_connected(secured, worker):
    """The new key is made, handed out, and the old one revoked: the worker comes back with the new one."""
    credential = Credential(secured.key, lasts=1)
    worker(credential)
    client = DurableTaskSchedulerClient(**secured.args(credential))
    try:
        assert run(client, 1) == [2, "more"]
        old = credential.key
        credential.key = secured.create("client,worker", "shop")
        eventually(lambda: accepted(client), 10)
        secured.perdure("revoke", secured.ids[old])
        assert run(client, 3) == [6, "more"]
        eventually(lambda: secured.server.log().count("API keys reread") >= 2, 10)
        assert run(client, 5) == [10, "more"]
    finally:
        client.close()


def accepted(client):
    return rpc_error(lambda: client.suspend_orchestration("none"))[0] == "NOT_FOUND"
