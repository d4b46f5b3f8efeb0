"""The two waits: also before there is an instance, also for very long, also by the thousand."""

import threading

import pytest
from conftest import eventually, of_kind, pb, rpc_error  # noqa: F401


def waits(ctx, x):
    return (yield ctx.wait_for_external_event("go"))


def echo(ctx, x):
    return x


def test_before_it_exists(hub):
    """checklist: 26"""
    hub.new_worker([echo])
    id = hub.id()
    got = []
    waiters = [
        threading.Thread(target=lambda: got.append(hub.finish(id).get_output())),
        threading.Thread(target=lambda: got.append(hub.client.wait_for_orchestration_start(id, timeout=20).name)),
    ]
    for w in waiters:
        w.start()
    with pytest.raises(AssertionError):
        eventually(lambda: got, 0.5)
    hub.start(echo, input="out", instance_id=id)
    for w in waiters:
        w.join(20)
    assert sorted(got) == ["echo", "out"]


def test_without_a_deadline(hub):
    """checklist: 27; reports: BL-009"""
    hub.new_worker([waits])
    id = hub.start(waits)
    got = []
    waiter = threading.Thread(target=lambda: got.append(hub.finish(id, None)))
    waiter.start()
    waiter.join(33)  # no server cuts a wait at 30 s
    assert waiter.is_alive() and not got
    hub.client.raise_orchestration_event(id, "go", data="at last")
    waiter.join(10)
    assert got[0].get_output() == "at last"


def test_past_the_deadline(hub):
    """checklist: 28, 6"""
    id = hub.start(waits)
    request = pb.GetInstanceRequest(instanceId=id)
    code, message = rpc_error(lambda: hub.client._stub.WaitForInstanceCompletion(request, timeout=0.3))
    assert code == "DEADLINE_EXCEEDED"
    with pytest.raises(TimeoutError):
        hub.client.wait_for_orchestration_start(id, timeout=0.3)
    # Unknown: the server says so just before the deadline, or the client's own deadline comes first.
    try:
        assert hub.client.wait_for_orchestration_completion("nobody", timeout=1) is None
    except TimeoutError:
        pass
    assert hub.status(id) == "PENDING"


def test_a_thousand_on_one(own_server, new_hub):
    """checklist: 29; reports: BL-009"""
    server = own_server()
    hub = new_hub(server)
    hub.new_worker([waits])
    id = hub.start(waits)
    hub.until(id, "RUNNING")
    threads = server.threads()
    request = pb.GetInstanceRequest(instanceId=id, getInputsAndOutputs=True)
    calls = [hub.future("WaitForInstanceCompletion", request, timeout=60) for _ in range(1000)]
    hub.status(id)  # the calls before this one have arrived
    assert server.threads() <= threads + 2
    assert not any(c.done() for c in calls)
    hub.client.raise_orchestration_event(id, "go", data=1)
    assert all(c.result(30).orchestrationState.output.value == "1" for c in calls)


def test_survives_replacement(hub):
    """checklist: 30"""
    hub.new_worker([waits])
    id = hub.start(waits, instance_id=hub.id())
    hub.until(id, "RUNNING")
    call = hub.future("WaitForInstanceCompletion", pb.GetInstanceRequest(instanceId=id, getInputsAndOutputs=True), timeout=30)
    hub.start(waits, instance_id=id, reuse_id_policy=pb.OrchestrationIdReusePolicy(replaceableStatus=[
        pb.ORCHESTRATION_STATUS_RUNNING, pb.ORCHESTRATION_STATUS_TERMINATED]))
    hub.until(id, "RUNNING")
    assert not call.done()
    hub.client.raise_orchestration_event(id, "go", data="second")
    assert call.result(20).orchestrationState.output.value == '"second"'


def test_start_is_not_pending(hub):
    """A wait for the start ends with the first turn, or with an end without one."""
    id = hub.start(waits)
    call = hub.future("WaitForInstanceStart", pb.GetInstanceRequest(instanceId=id), timeout=20)
    hub.client.terminate_orchestration(id)
    assert call.result(10).orchestrationState.orchestrationStatus == pb.ORCHESTRATION_STATUS_TERMINATED


def test_cancelled_waits_leave_nothing(hub):
    """A wait that its client gives up goes; the connection lives on."""
    hub.new_worker([waits])
    id = hub.start(waits)
    request = pb.GetInstanceRequest(instanceId=id)
    for _ in range(5):
        calls = [hub.future("WaitForInstanceCompletion", request) for _ in range(300)]
        hub.status(id)
        for c in calls:
            c.cancel()
    hub.client.raise_orchestration_event(id, "go", data=1)
    assert hub.finish(id).get_output() == 1


def test_3000_waits_time_out(hub):
    """checklist: 6"""
    hub.new_worker([waits])
    id = hub.start(waits)
    request = pb.GetInstanceRequest(instanceId=id)
    calls = [hub.future("WaitForInstanceCompletion", request, timeout=1) for _ in range(3000)]
    assert {c.code().name for c in calls} == {"DEADLINE_EXCEEDED"}
    hub.client.raise_orchestration_event(id, "go", data=1)
    assert hub.finish(id).get_output() == 1
