"""An order, from the stock to the parcel: a worker and a client of Perdure in one program.

    python order.py [SECONDS]

SECONDS is how long the customer may change their mind, 2 without it. The server is the one at
$PERDURE_SERVER, localhost:4001 without it.
"""

import logging
import os
import sys
import time
from datetime import timedelta

import grpc
from durabletask import client, task, worker

PRICES = {"tea": 5, "cup": 12, "spoon": 3}


# ---- activities: they do the work, and run again if their worker dies before it has answered ----

def check_stock(ctx, items):
    return [item for item in items if item in PRICES]


def add_up(ctx, items):
    return sum(PRICES[item] for item in items)


def pack(ctx, item):
    return f"boxed {item}"


def label(ctx, boxes):
    return "parcel of " + ", ".join(boxes)


# ---- orchestrations: they say what comes next, and are replayed from their history ----

def order(ctx, wanted):
    # A chain: each activity gets what the one before has given.
    items = yield ctx.call_activity(check_stock, input=wanted["items"])
    total = yield ctx.call_activity(add_up, input=items)
    # Fan-out and fan-in: all at once, and then all results.
    boxes = yield task.when_all([ctx.call_activity(pack, input=item) for item in items])
    # A durable timer: it rings also if the server was down in between.
    yield ctx.create_timer(timedelta(seconds=wanted["seconds"]))
    # An event from outside. It may have come long before: the server keeps it.
    payment = yield ctx.wait_for_external_event("payment")
    # A sub-orchestration.
    parcel = yield ctx.call_sub_orchestrator(ship, input=boxes)
    return f"{payment['by']} paid {total} for a {parcel}"


def ship(ctx, boxes):
    return (yield ctx.call_activity(label, input=boxes))


# ---- the client ----

def finish(c, instance):
    """Waits for the end of an instance, however often the server is restarted meanwhile."""
    while True:
        try:
            return c.wait_for_orchestration_completion(instance)
        except TimeoutError:
            pass
        except grpc.RpcError as e:
            if e.code() != grpc.StatusCode.UNAVAILABLE:
                raise
            time.sleep(1)


def main():
    seconds = int(sys.argv[1]) if len(sys.argv) > 1 else 2
    address = os.environ.get("PERDURE_SERVER", "localhost:4001")
    logger = logging.getLogger("order")
    logger.setLevel(logging.ERROR)  # the SDK warns of its own stop

    with worker.TaskHubGrpcWorker(host_address=address, logger=logger) as w:
        for orchestration in (order, ship):
            w.add_orchestrator(orchestration)
        for activity in (check_stock, add_up, pack, label):
            w.add_activity(activity)
        w.start()

        c = client.TaskHubGrpcClient(host_address=address, logger=logger)
        wanted = {"items": ["tea", "unicorn", "cup", "spoon"], "seconds": seconds}
        instance = c.schedule_new_orchestration(order, input=wanted)
        print(f"{instance} started", flush=True)
        c.raise_orchestration_event(instance, "payment", data={"by": "Ada"})

        state = finish(c, instance)
        completed = state.runtime_status == client.OrchestrationStatus.COMPLETED
        result = state.get_output() if completed else state.failure_details
        print(f"{instance} {state.runtime_status.name}: {result}")
        return 0 if completed else 1


if __name__ == "__main__":
    sys.exit(main())
