"""Task hubs, by the `taskhub` header, and the layer of the SDK that sends it."""

import grpc
import pytest
from conftest import YARDSTICK, Hub, pb, rpc_error
from durabletask.azuremanaged.client import DurableTaskSchedulerClient
from durabletask.azuremanaged.worker import DurableTaskSchedulerWorker

pytestmark = pytest.mark.skipif(bool(YARDSTICK), reason="needs hubs")


def where(ctx, x):
    return x


def waits(ctx, x):
    return (yield ctx.wait_for_external_event("go"))


def test_two_hubs_do_not_see_each_other(hub, new_hub):
    """checklist-partial: 4"""
    other = new_hub(hub.server)
    mine = hub.new_worker([waits])
    theirs = other.new_worker([waits])
    for h in (hub, other):
        h.start(waits, instance_id="same")
        h.until("same", "RUNNING")
    hub.client.raise_orchestration_event("same", "go", data="mine")
    assert hub.finish("same").get_output() == "mine"
    assert other.status("same") == "RUNNING"
    other.client.raise_orchestration_event("same", "go", data="theirs")
    assert other.finish("same").get_output() == "theirs"
    assert (len(mine.turns), len(theirs.turns)) == (2, 2)
    hub.client.purge_orchestration("same")
    assert other.status("same") == "COMPLETED"
    assert rpc_error(lambda: hub.history("same"))[0] == "NOT_FOUND"


def test_no_header_is_default(server, new_hub):
    """checklist-partial: 4"""
    bare = new_hub(server, "default")
    bare.metadata = None
    named = new_hub(server, "DeFault")
    bare.new_worker([where])
    id = named.start(where, input="x")
    assert bare.finish(id).get_output() == "x"


@pytest.mark.parametrize("name", ["", "a b", "x" * 65, "hub/1", "a.b"],
                         ids=["empty", "space", "long", "slash", "dot"])
def test_malformed_name(server, name):
    """checklist: 5"""
    with grpc.insecure_channel(server.address) as channel:
        call = channel.unary_unary(
            "/TaskHubSidecarService/GetInstance",
            request_serializer=pb.GetInstanceRequest.SerializeToString,
            response_deserializer=pb.GetInstanceResponse.FromString)
        code, message = rpc_error(lambda: call(
            pb.GetInstanceRequest(instanceId="x"), metadata=[("taskhub", name)], timeout=10))
        assert code == "INVALID_ARGUMENT" and message


def test_azuremanaged_layer(server):
    """checklist-partial: 4"""
    args = dict(host_address=server.address, taskhub="managed", token_credential=None, secure_channel=False)
    worker = DurableTaskSchedulerWorker(**args)
    worker.add_orchestrator(where)
    worker.start()
    client = DurableTaskSchedulerClient(**args)
    try:
        id = client.schedule_new_orchestration(where, input="managed")
        assert client.wait_for_orchestration_completion(id, timeout=20).get_output() == "managed"
        assert Hub(server, "managed").status(id) == "COMPLETED"
        assert Hub(server, "another").status(id) is None
    finally:
        worker.stop()
        client.close()


def test_many_hubs_with_one_worker_each(server, new_hub):
    """checklist-partial: 4"""
    hubs = [new_hub(server, "many-%d" % n) for n in range(10)]
    for h in hubs:
        h.new_worker([where])
    ids = [[h.start(where, input=[n, i]) for i in range(10)] for n, h in enumerate(hubs)]
    for n, h in enumerate(hubs):
        assert [h.finish(id).get_output() for id in ids[n]] == [[n, i] for i in range(10)]
