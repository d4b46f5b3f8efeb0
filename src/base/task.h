/* task.h - a piece of work handed to another thread: intrusive, so posting allocates nothing.
 *
 * The poster owns it; it must stay until fn ran.
 */
#pragma once

struct loop_task {
    struct loop_task *next; /* the queue's */
    void (*fn)(struct loop_task *task);
};
