"""GO and JAVA: workers without tokens (spec 8.2)."""

import time

from lib import actions as act
from lib.history import check_legal, events_of, raised_inputs
from lib.proto import COMPLETED, kinds, pb, sv
from lib.runner import limit
from lib.server import eventually
from lib.worker import GO, JAVA, Worker


def request_bytes(item):
    """The bytes of the OrchestratorRequest, without the token."""
    data = item.raw
    assert data[0] == 0x0A, "the request comes first"
    n = shift = 0
    at = 1
    while True:
        b = data[at]
        n |= (b & 127) << shift
        at += 1
        shift += 7
        if b < 128:
            break
    return data[at : at + n]


# checklist: 139, 62
def test_a_whole_run_without_tokens(t):
    for agent in (GO, JAVA, "my-app/1.0 grpc-go/1.56.0"):
        hub = t.hub + str(len(agent))
        c = t.client(hub=hub)
        w = t.worker(hub=hub, agent=agent, tokens=False)
        id = c.start("o", input="in")
        w.done(w.turn(), act.task(0, "a"), act.timer(1, after=0.1), act.child(2, "k", "kid"))
        k = w.turn(id="kid")
        w.result(w.task(), "r")
        w.done(k, act.complete(result="kr"))
        n = 0
        while n < 3:
            i = w.turn(id=id)
            n += len(i.new) - 1
            w.done(i, *([act.complete(result="done")] if n == 3 else []))
        assert c.wait(id).output.value == "done"
        check_legal(c.history(id), True)


# checklist: 157
def test_redelivery_repeats_the_batch(t):
    """After a lost stream the same batch comes again, to the byte but for the token."""
    for agent in (GO, JAVA):
        hub = t.hub + agent[5:7]
        c = t.client(hub=hub)
        w = t.worker(hub=hub, agent=agent)
        id = c.start("o")
        i = w.turn()
        c.event(id, "e", "later")
        w.cancel()
        begin = time.monotonic()
        w.open()
        j = w.turn(timeout=10)
        assert time.monotonic() - begin >= 0.7, "not before a second"
        assert request_bytes(j) == request_bytes(i) and j.token != i.token
        assert kinds(j.new) == ["orchestratorStarted", "executionStarted"], "no longer batch"
        w.done(j)
        k = w.turn(timeout=10)
        assert raised_inputs(k.new) == ["later"]
        # On a new connection too.
        w.close()
        w = t.worker(hub=hub, agent=agent)
        k2 = w.turn(timeout=10)
        assert request_bytes(k2) == request_bytes(k)
        w.done(k2, act.complete(result="r"))
        assert c.wait(id).output.value == "r"
        assert raised_inputs(check_legal(c.history(id), True)) == ["later"]


# checklist: 157
def test_redelivery_after_a_server_restart(t):
    s = t.own_server()
    c = t.client()
    w = t.worker(agent=GO)
    id = c.start("o")
    i = w.turn()
    c.event(id, "e", "later")
    w.close()
    s.restart()
    c = t.client()
    w = t.worker(agent=GO)
    j = w.turn(timeout=15)
    assert request_bytes(j) == request_bytes(i)
    w.done(j)
    k = w.turn(timeout=10)
    assert raised_inputs(k.new) == ["later"]
    w.done(k, act.complete())
    c.wait(id)


# checklist: 157
@limit(90)
def test_redelivery_on_time_out(t):
    """At most one unanswered dispatch of an instance on a connection: it goes to another one."""
    t.shared(turn__timeout="1500ms")
    c = t.client()
    w = t.worker(agent=GO)
    id = c.start("o")
    i = w.turn()
    w.none(3.0)
    w2 = t.worker(agent=JAVA)
    j = w2.turn(timeout=10)
    assert request_bytes(j) == request_bytes(i)
    # The answer to the first dispatch settles the turn, that to the second is stale: or the reverse.
    w.done(i, act.task(1, "a"))
    w2.done(j, act.task(1, "a"))
    assert kinds(c.history(id)).count("taskScheduled") == 1
    for x in (w, w2):
        try:
            x.result(x.task(timeout=2), "r")
            break
        except AssertionError:
            continue
    got = None
    for x in (w, w2, w, w2):
        try:
            got = x.turn(timeout=4)
            break
        except AssertionError:
            continue
    assert kinds(got.new) == ["orchestratorStarted", "taskCompleted"]
    x.done(got, act.complete(result="r"))
    assert c.wait(id).output.value == "r"
    check_legal(c.history(id), True)


# checklist: 157
def test_an_old_answer_does_not_settle_a_later_turn(t):
    """An answer to an earlier dispatch of another connection, after the turn was settled."""
    c = t.client()
    w = t.worker(agent=GO)
    id = c.start("o")
    i = w.turn()
    w.cancel()
    w2 = t.worker(agent=GO)
    j = w2.turn(timeout=10)
    c.event(id, "e", "must not be lost")
    w2.done(j, act.task(1, "a"))
    a = w2.task(timeout=10)
    k = w2.turn(timeout=10)
    assert raised_inputs(k.new) == ["must not be lost"]
    # The first connection answers now, to a turn that is over: OK, nothing.
    w.done(i, act.complete(result="wrong"))
    time.sleep(0.2)
    assert c.status(id) == "RUNNING"
    w2.done(k)
    w2.result(a)
    m = w2.turn(timeout=10)
    assert kinds(m.new) == ["orchestratorStarted", "taskCompleted"]
    w2.done(m, act.complete(result="right"))
    assert c.wait(id).output.value == "right"
    assert raised_inputs(check_legal(c.history(id), True)) == ["must not be lost"]


# checklist: 157
def test_answers_within_the_second(t):
    """A turn that was out twice may be answered twice: the next waits for both, or for a second."""
    c = t.client()
    w = t.worker(agent=GO)
    id = c.start("o")
    i = w.turn()
    w.cancel()
    w.open()
    j = w.turn(timeout=10)
    c.event(id, "e", "1")
    w.done(i, act.task(1, "a"))  # the first dispatch's answer, on the same connection
    a = w.task()
    begin = time.monotonic()
    w.done(j, act.task(1, "a"))  # and the second's: it settles nothing more
    k = w.turn(timeout=10)
    assert time.monotonic() - begin < 10
    assert raised_inputs(k.new) == ["1"]
    assert kinds(k.past) == ["orchestratorStarted", "executionStarted", "taskScheduled"]
    w.result(a)
    w.done(k)
    k = w.turn(timeout=10)
    assert kinds(k.new) == ["orchestratorStarted", "taskCompleted"]
    w.done(k, act.complete(result="r"))
    assert c.wait(id).output.value == "r"
    check_legal(c.history(id), True)


# checklist: 157
def test_only_one_answer_within_the_second(t):
    """The second dispatch is never answered: the next turn comes all the same, a second later."""
    c = t.client()
    w = t.worker(agent=JAVA)
    id = c.start("o")
    i = w.turn()
    w.cancel()
    w.open()
    w.turn(timeout=10)
    c.event(id, "e", "1")
    w.done(i)
    k = w.turn(timeout=10)
    assert raised_inputs(k.new) == ["1"]
    w.done(k, act.complete())
    assert c.wait(id).orchestrationStatus == COMPLETED


def test_answer_on_another_connection(t):
    """A proxy may split connections: with nothing older unanswered the answer counts."""
    c = t.client()
    w = t.worker(agent=GO)
    other = t.worker(agent=GO, open=False)
    id = c.start("o")
    i = w.turn()
    other.done(i, act.complete(result="r"))
    assert c.wait(id, 10).output.value == "r"


def test_tokens_decide_once_they_came(t):
    """A grpc-go connection whose completion had a token is a worker with tokens."""
    c = t.client()
    w = t.worker(agent=GO, tokens=True)
    w.tokens = True
    id = c.start("o")
    w.done(w.turn(), act.task(1, "a"))
    w.result(w.task(), "r")
    i = w.turn()
    w.call("CompleteOrchestratorTask", w.response(i, [act.complete(result="no token")], token=""))
    time.sleep(0.2)
    w.done(i, act.complete(result="token"))
    assert c.wait(id, 10).output.value in ("token", "no token")
    # For workers that are no such agents an empty token settles nothing.
    p = t.worker()
    id = c.start("o")
    w.close()
    i = p.turn()
    p.call("CompleteOrchestratorTask", p.response(i, [act.complete(result="x")], token=""))
    time.sleep(0.2)
    assert c.status(id) == "PENDING"
    p.done(i, act.complete(result="y"))
    assert c.wait(id).output.value == "y"


def test_useless_errors_are_ok(t):
    """Where a retry is useless a token-less worker hears OK: history limit, content."""
    from test_transport import chain, field
    t.shared(history__max_events="40")
    c = t.client()
    w = t.worker(agent=JAVA)
    id = c.start("o")
    w.done(w.turn(), *[act.task(n, "a") for n in range(60)])  # no exception
    s = c.wait(id, 10)
    assert s.failureDetails.errorType == "HistoryLimitExceeded"
    h = t.h2(agent=JAVA)
    id = c.start("o")
    w.done(w.turn(), act.task(1, "a"))
    a = w.task()
    body = w.activity_response(a).SerializeToString() + field(4, chain(400))
    assert h.call("CompleteActivityTask", body, hub=t.hub).status == ("OK", "")
    i = w.turn()
    assert events_of(i.new, "taskFailed")[0].failureDetails.errorType == "InvalidCompletion"
    w.done(i, act.complete())
    c.wait(id)


def test_entity_items_and_abandons_are_unknown_to_them(t):
    """An empty token given to an abandon is nothing."""
    t.shared(abandon__backoff_max="1ms")
    c = t.client()
    w = t.worker(agent=GO)
    id = c.start("o")
    i = w.turn()
    w.abandon(token="")
    w.call("AbandonTaskActivityWorkItem", pb.AbandonActivityTaskRequest())
    w.quiet()
    w.done(i, act.complete(result="r"))
    assert c.wait(id).output.value == "r"
