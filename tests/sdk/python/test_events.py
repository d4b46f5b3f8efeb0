"""External events: buffered, ordered, carried over, sent by orchestrations."""

import threading
from datetime import timedelta

import pytest
from conftest import eventually, of_kind, rpc_error


def collects(ctx, n):
    got = []
    for _ in range(n):
        got.append((yield ctx.wait_for_external_event("e")))
    return got


def test_before_running_suspended(hub):
    """checklist: 75; reports: BL-007"""
    id = hub.start(collects, input=9)
    for n in range(3):
        hub.client.raise_orchestration_event(id, "e", data=n)
    hub.new_worker([collects])
    hub.until(id, "RUNNING")
    for n in range(3, 6):
        hub.client.raise_orchestration_event(id, "e", data=n)
    hub.client.suspend_orchestration(id)
    for n in range(6, 9):
        hub.client.raise_orchestration_event(id, "e", data=n)
    assert hub.status(id) == "SUSPENDED"
    hub.client.resume_orchestration(id)
    assert hub.finish(id).get_output() == list(range(9))
    # Over: taken and dropped.
    before = len(hub.history(id))
    hub.client.raise_orchestration_event(id, "e", data="late")
    assert len(hub.history(id)) == before


def test_unknown_and_nameless(hub):
    """checklist: 75; reports: BL-035"""
    code, message = rpc_error(lambda: hub.client.raise_orchestration_event("nobody", "e"))
    assert (code, message) == ("NOT_FOUND", "Orchestration instance 'nobody' not found")
    id = hub.start(collects, input=1)
    assert rpc_error(lambda: hub.client.raise_orchestration_event(id, ""))[0] == "INVALID_ARGUMENT"
    assert rpc_error(lambda: hub.client.raise_orchestration_event("", "e"))[0] == "INVALID_ARGUMENT"


def test_not_awaited_yet(hub):
    """reports: BL-032"""
    def late(ctx, x):
        yield ctx.wait_for_external_event("start")
        got = []
        for _ in range(10):
            got.append((yield ctx.wait_for_external_event("x")))
        return got

    hub.new_worker([late])
    id = hub.start(late)
    for n in range(10):
        hub.client.raise_orchestration_event(id, "x", data=n)
    hub.client.raise_orchestration_event(id, "start")
    assert hub.finish(id).get_output() == list(range(10))


def test_names_in_any_case_and_language(hub):
    """The names travel as they are; PY matches them without case."""
    def waits(ctx, x):
        a = yield ctx.wait_for_external_event("Größe")
        b = yield ctx.wait_for_external_event("B")
        return [a, b]

    hub.new_worker([waits])
    id = hub.start(waits)
    hub.client.raise_orchestration_event(id, "GRÖSSE", data=1)
    hub.client.raise_orchestration_event(id, "b", data=None)
    assert hub.finish(id).get_output() == [1, None]
    assert [e.name for e in of_kind(hub.history(id), "EventRaised")] == ["GRÖSSE", "b"]


def test_thousands_in_order(hub):
    """checklist: 75"""
    hub.new_worker([collects])
    id = hub.start(collects, input=1000)
    for n in range(1000):
        hub.client.raise_orchestration_event(id, "e", data=n)
    assert hub.finish(id, 60).get_output() == list(range(1000))


@pytest.mark.parametrize("timer", [False, True], ids=["plain", "with-timer"])
def test_none_lost_in_continue_as_new(hub, timer):
    """checklist: 78; reports: BL-031, BL-120"""
    total, senders = 400, 10

    def counts(ctx, seen):
        if timer:
            yield ctx.create_timer(timedelta(0))
        got = yield ctx.wait_for_external_event("E")
        seen = dict(seen)
        sender, number = got
        assert seen.get(str(sender), -1) == number - 1, "out of order"
        seen[str(sender)] = number
        if sum(n + 1 for n in seen.values()) < total:
            ctx.continue_as_new(seen, save_events=True)
            return
        return seen

    hub.new_worker([counts])
    id = hub.start(counts, input={})

    def send(sender):
        client = hub.new_client()
        for n in range(total // senders):
            client.raise_orchestration_event(id, "E", data=[sender, n])

    threads = [threading.Thread(target=send, args=(s,)) for s in range(senders)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert hub.finish(id, 120).get_output() == {str(s): total // senders - 1 for s in range(senders)}
    assert len(hub.history(id)) < total + 100


def test_carried_over_before_later_ones(hub):
    """checklist: 78"""
    def first(ctx, round):
        if round == 0:
            yield ctx.wait_for_external_event("go")
            ctx.continue_as_new(1, save_events=True)
            return
        got = []
        for _ in range(6):
            got.append((yield ctx.wait_for_external_event("x")))
        return got

    hub.new_worker([first])
    id = hub.start(first, input=0)
    hub.until(id, "RUNNING")
    for n in range(3):
        hub.client.raise_orchestration_event(id, "x", data=n)
    hub.client.raise_orchestration_event(id, "go")
    for n in range(3, 6):
        hub.client.raise_orchestration_event(id, "x", data=n)
    assert hub.finish(id).get_output() == list(range(6))


def test_sent_by_an_orchestration(hub):
    """checklist: 76"""
    def sends(ctx, target):
        ctx.send_event("nobody-there", "Lost Ünicode", data=1)
        ctx.send_event(target, "e", data={"from": ctx.instance_id})
        yield ctx.create_timer(timedelta(milliseconds=1))
        return "sent"

    hub.new_worker([collects, sends])
    target = hub.start(collects, input=1)
    id = hub.start(sends, input=target)
    assert hub.finish(id).get_output() == "sent"
    assert hub.finish(target).get_output() == [{"from": id}]
    sent = of_kind(hub.history(id), "EventSent")
    assert [(e.instance_id, e.name, e.input) for e in sent] == [
        ("nobody-there", "Lost Ünicode", "1"), (target, "e", '{"from": "%s"}' % id)]
    assert hub.client.get_orchestration_state("nobody-there") is None
    assert len(of_kind(hub.history(target), "EventRaised")) == 1


def test_sent_to_itself(hub):
    """checklist: 77"""
    def selfish(ctx, last):
        ctx.send_event(ctx.instance_id, "e", data=1)
        if not last:
            return (yield ctx.wait_for_external_event("e"))
        return "over"

    worker = hub.new_worker([selfish])
    assert hub.finish(hub.start(selfish, input=False)).get_output() == 1
    id = hub.start(selfish, input=True)
    assert hub.finish(id).get_output() == "over"
    other = hub.start(selfish, input=False)
    hub.finish(other)
    assert len(worker.turns_of(id)) == 1
    assert not of_kind(hub.history(id), "EventRaised")


def test_without_a_worker_and_over_a_restart(own_server, new_hub):
    """reports: BL-006, BL-007, BL-008"""
    server = own_server()
    hub = new_hub(server)
    worker = hub.new_worker([collects])
    id = hub.start(collects, input=2)
    hub.until(id, "RUNNING")
    worker.stop()
    hub.client.raise_orchestration_event(id, "e", data="before")
    server.restart()

    def raise_it():
        try:
            assert hub.client.get_orchestration_state(id) is not None
            hub.client.raise_orchestration_event(id, "e", data="after")
            return True
        except Exception as e:
            if isinstance(e, AssertionError):
                raise
            assert e.code().name == "UNAVAILABLE"

    eventually(raise_it)
    hub.client.suspend_orchestration(id)
    hub.client.resume_orchestration(id)
    hub.new_worker([collects])
    assert hub.finish(id, 10).get_output() == ["before", "after"]
    assert len(of_kind(hub.history(id), "EventRaised")) == 2
