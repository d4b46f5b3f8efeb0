/* talk.h - a client of the whole service for fuzzers: calls any method, keeps and checks what comes back.
 *
 * Every answer must decode as its method's message within the limits of an SDK, text included; every call ends once, a unary one
 * that ended OK with exactly one answer. Calls and items belong to the talk, which holds one connection.
 */
#pragma once

#include "lib/served.h"

#define TALK_METHODS 29
#define TALK_HELD_MAX 256

struct talk_call {
    struct talk *t;
    struct rpc_call *call;
    unsigned method;
    bool is_over;
    int status;
    size_t messages;
    struct arena *arena; /* of the last message, and the error's text */
    struct bytes last, error;
};

struct talk_item {
    struct arena *arena;
    WorkItem *item;
};

struct talk {
    struct served *s;
    struct served_conn *conn;
    const char *hub; /* NULL: no header */
    struct talk_call *calls[TALK_HELD_MAX];
    size_t call_count;
    struct talk_item items[TALK_HELD_MAX]; /* in the order of their coming; pings are not kept */
    size_t item_count;
    bool is_closing;
    unsigned unavailable; /* calls that ended so while the connection was there */
    bool lies;            /* what is stored may not be text: answers need not decode */
};

struct talk *talk_new(struct served *s, const char *user_agent);
void talk_free(struct talk *t); /* closes the connection; NULL is fine */
unsigned talk_method(const char *name);
/* Begins a call and runs what follows. Borrowed; NULL: the connection takes no more, or the talk is full. `timeout` 0: none. */
struct talk_call *talk_begin(struct talk *t, unsigned method, struct bytes request, usec_t timeout);
/* The same with a message of that type. */
struct talk_call *talk_say(struct talk *t, const char *method, const ProtobufCMessage *request);
/* Gives the item to the caller: it is the talk's no longer. False: there is none of that kind (0: of any). */
bool talk_take(struct talk *t, WorkItem__RequestCase kind, struct talk_item *out);
void talk_item_free(struct talk_item *it);

/* A new instance starts, runs one turn and an activity, and ends, and a client sees it: whatever went before, others are served. */
void talk_probe(struct served *s, struct bytes input);
