"""Puts an instance into any status."""

from . import actions as act
from .proto import (
    CANCELED, COMPLETED, FAILED, PENDING, RUNNING, SUSPENDED, TERMINATED,
)

ALL = [PENDING, RUNNING, SUSPENDED, COMPLETED, FAILED, TERMINATED, CANCELED]
TERMINAL = [COMPLETED, FAILED, TERMINATED, CANCELED]
LIVE = [PENDING, RUNNING, SUSPENDED]


def make(c, w, id, status, name="o"):
    """Starts `id` and brings it there by the worker w; gives the state."""
    c.start(name, id)
    if status != PENDING:
        item = w.turn(id=id)
        if status in (RUNNING, SUSPENDED):
            w.done(item)
        elif status == FAILED:
            w.done(item, act.fail())
        else:
            w.done(item, act.complete(status=status, result="r"))
        if status == SUSPENDED:
            c.suspend(id)
    return c.until(id, status)
