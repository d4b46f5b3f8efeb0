/* Who may call what: every RPC and route with every role, another hub's key and a certificate; keys that change. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "durabletask.pb-c.h"
#include "perdure_admin.pb-c.h"
#include "server/auth.h"

#define RANDOM_BYTES (KEY_ID_LEN / 2 + KEY_SECRET_BYTES + 16)

static char path[64];

static int set_up(void **state)
{
    (void)state;
    (void)snprintf(path, sizeof(path), "/tmp/test-auth-%ld", (long)getpid());
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    unlink(path);
    return 0;
}

struct written {
    char header[7 + KEY_TEXT_LEN + 1]; /* Bearer KEY */
};

static void put(FILE *f, uint8_t seed, uint32_t roles, const char *hubs, struct written *w)
{
    uint8_t random[RANDOM_BYTES];
    char key[KEY_TEXT_LEN + 1];
    struct strbuf line = {0};

    memset(random, seed, sizeof(random));
    key_make(random, roles, bytes_str(hubs), 0, BYTES_NONE, key, &line);
    assert_int_equal(fwrite(line.ptr, 1, line.len, f), line.len);
    strbuf_deinit(&line);
    (void)snprintf(w->header, sizeof(w->header), "Bearer %s", key);
}

static FILE *file(void)
{
    FILE *f = fopen(path, "we");

    assert_non_null(f);
    return f;
}

static struct auth *made(const char *keys, bool certs, uint32_t cert_roles)
{
    const struct auth_options opts = {keys, certs, cert_roles};
    struct auth *a;
    struct error err;

    if (auth_new(&opts, &a, &err))
        fail_msg("%s", err.msg);
    return a;
}

static enum err ask(struct auth *a, struct auth_seat *seat, const char *what, const char *header,
                    const char *hub)
{
    const struct auth_request req = {what, bytes_str(header), bytes_str(hub)};
    struct error err;

    return auth_check(a, seat, &req, &err);
}

/* ---- the table ----------------------------------------------------------------------------------- */

/* The contract once more, by what a call does: R reads, C changes as a client does, W is a worker's, O is open; the rest is the
 * administrator's. */
static char sort_of(const char *what)
{
    static const char *const OPEN[] = {"Hello", "Check", "Watch", "/healthz", "/readyz"};
    static const char *const READS[] = {"GetInstance",
                                        "WaitForInstanceStart",
                                        "WaitForInstanceCompletion",
                                        "QueryInstances",
                                        "ListInstanceIds",
                                        "GetEntity",
                                        "QueryEntities",
                                        "Workers",
                                        "Status",
                                        "/metrics"};
    static const char *const CHANGES[] = {"StartInstance",  "RaiseEvent",        "SuspendInstance",
                                          "ResumeInstance", "TerminateInstance", "RestartInstance",
                                          "RewindInstance", "SignalEntity",      "PurgeInstances"};
    static const char *const ADMINS[] = {
        "CreateTaskHub",      "DeleteTaskHub",
        "CleanEntityStorage", "SkipGracefulOrchestrationTerminations",
        "CheckStore",         "BackupStore"};
    const char *name =
        what[1] == 'h' || what[1] == 'r' || what[1] == 'm' ? what : strrchr(what, '/') + 1;

    if (!strncmp(name, "Complete", 8) || !strncmp(name, "Abandon", 7) ||
        !strcmp(name, "GetWorkItems"))
        return 'W';
    if (!strcmp(name, "StreamInstanceHistory"))
        return 'H'; /* readers and workers */
    for (size_t i = 0; i < ARRAY_LEN(OPEN); i++)
        if (!strcmp(name, OPEN[i]))
            return 'O';
    for (size_t i = 0; i < ARRAY_LEN(READS); i++)
        if (!strcmp(name, READS[i]))
            return 'R';
    for (size_t i = 0; i < ARRAY_LEN(CHANGES); i++)
        if (!strcmp(name, CHANGES[i]))
            return 'C';
    for (size_t i = 0; i < ARRAY_LEN(ADMINS); i++)
        if (!strcmp(name, ADMINS[i]))
            return 'A';
    fail_msg("the test does not know %s: say who may call it", what);
    return 0;
}

static bool may(uint32_t roles, char sort)
{
    bool admin = roles & ROLE_ADMIN, client = roles & ROLE_CLIENT || admin;
    bool read = roles & ROLE_READ || client, worker = roles & ROLE_WORKER || admin;

    return sort == 'O' || (sort == 'R' && read) || (sort == 'C' && client) ||
           (sort == 'W' && worker) || (sort == 'H' && (read || worker)) || (sort == 'A' && admin);
}

#define PATHS_MAX 64
static char paths[PATHS_MAX][100];

static size_t all_paths(void)
{
    static const char *const OTHERS[] = {"/grpc.health.v1.Health/Check",
                                         "/grpc.health.v1.Health/Watch", "/healthz", "/readyz",
                                         "/metrics"};
    const ProtobufCServiceDescriptor *d = &task_hub_sidecar_service__descriptor;
    const ProtobufCServiceDescriptor *admin = &perdure__v1__admin__descriptor;
    size_t n = 0;

    for (unsigned i = 0; i < d->n_methods; i++)
        (void)snprintf(paths[n++], sizeof(paths[0]), "/TaskHubSidecarService/%s",
                       d->methods[i].name);
    for (unsigned i = 0; i < admin->n_methods; i++)
        (void)snprintf(paths[n++], sizeof(paths[0]), "/perdure.v1.Admin/%s",
                       admin->methods[i].name);
    for (size_t i = 0; i < ARRAY_LEN(OTHERS); i++)
        (void)snprintf(paths[n++], sizeof(paths[0]), "%s", OTHERS[i]);
    assert_true(n <= PATHS_MAX && d->n_methods == 29);
    return n;
}

static void expect(enum err got, enum err wanted, const char *what, const char *who)
{
    if (got != wanted)
        fail_msg("%s for %s: %s, expected %s", what, who, err_name(got), err_name(wanted));
}

static bool tells_of_all_hubs(const char *what)
{
    return strstr(what, "Admin/");
}

static bool has_no_hub(const char *what)
{
    return !strstr(what, "TaskHub");
}

/* Every call with every set of roles: of the hub, of all hubs, of another hub, and without any key. */
static void every_call_with_every_role(void **state)
{
    struct written of_hub[16], of_all[16], of_other[16];
    FILE *f = file();

    (void)state;
    for (uint8_t r = 1; r < 16; r++) {
        put(f, r, r, "shop", &of_hub[r]);
        put(f, (uint8_t)(16 + r), r, "*", &of_all[r]);
        put(f, (uint8_t)(32 + r), r, "other,one-more", &of_other[r]);
    }
    fclose(f);
    struct auth *a = made(path, false, 0);
    size_t n = all_paths();
    struct auth_seat seat = {0};
    for (size_t i = 0; i < n; i++) {
        const char *what = paths[i];
        char sort = sort_of(what);
        enum err stranger = sort == 'O' ? OK : ERR_UNAUTHENTICATED;
        expect(ask(a, &seat, what, NULL, "shop"), stranger, what, "nobody");
        expect(ask(a, &seat, what, "Basic x", "shop"), stranger, what, "another scheme");
        expect(ask(a, &seat, what, "Bearer x", "shop"), stranger, what, "a made-up key");
        for (uint32_t r = 1; r < 16; r++) {
            enum err own = may(r, sort) ? OK : ERR_DENIED;
            enum err all = own;
            enum err some = own == OK && tells_of_all_hubs(what) ? ERR_DENIED : own;
            enum err other = own == OK && !has_no_hub(what) && sort != 'O' ? ERR_DENIED : some;
            expect(ask(a, &seat, what, of_all[r].header, "shop"), all, what, "a key of all hubs");
            expect(ask(a, &seat, what, of_hub[r].header, "Shop"), some, what, "a key of the hub");
            expect(ask(a, &seat, what, of_other[r].header, "shop"), other, what,
                   "a key of another hub");
            expect(ask(a, NULL, what, of_other[r].header, NULL), other, what,
                   "a key of another hub, in the default one");
        }
    }
    auth_seat_deinit(&seat);
    auth_free(a);
}

/* What no table names is the administrator's alone. */
static void unknown_calls_are_for_admin(void **state)
{
    struct written worker, admin;
    FILE *f = file();

    (void)state;
    put(f, 1, ROLES_ALL & ~(uint32_t)ROLE_ADMIN, "*", &worker);
    put(f, 2, ROLE_ADMIN, "*", &admin);
    fclose(f);
    struct auth *a = made(path, false, 0);
    assert_int_equal(ask(a, NULL, "/perdure.v1.Admin/Later", worker.header, NULL), ERR_DENIED);
    assert_int_equal(ask(a, NULL, "/perdure.v1.Admin/Later", admin.header, NULL), OK);
    const struct auth_request filter = {"/TaskHubSidecarService/PurgeInstances",
                                        bytes_str(worker.header), BYTES_NONE};
    struct error err;
    assert_int_equal(auth_check(a, NULL, &filter, &err), OK);
    assert_int_equal(auth_check_admin(a, NULL, &filter, &err), ERR_DENIED);
    assert_string_equal(err.msg, "the key 010101010101 has the roles read,client,worker; "
                                 "PurgeInstances takes one of admin");
    auth_free(a);
}

/* ---- certificates ---------------------------------------------------------------------------------- */

static void a_certificate_has_its_roles(void **state)
{
    struct written admin;
    FILE *f = file();

    (void)state;
    put(f, 2, ROLE_ADMIN, "*", &admin);
    fclose(f);
    size_t n = all_paths();
    for (uint32_t r = 1; r < 16; r++) {
        struct auth *a = made(NULL, true, r);
        for (size_t i = 0; i < n; i++) {
            enum err wanted = may(r, sort_of(paths[i])) ? OK : ERR_DENIED;
            expect(ask(a, NULL, paths[i], NULL, "any"), wanted, paths[i], "a certificate");
            expect(ask(a, NULL, paths[i], "Bearer x", "any"), wanted, paths[i],
                   "a certificate, where keys are not used");
        }
        auth_free(a);
    }
    struct auth *both = made(path, true, ROLE_WORKER);
    assert_int_equal(ask(both, NULL, "/perdure.v1.Admin/Status", NULL, NULL), ERR_DENIED);
    assert_int_equal(ask(both, NULL, "/perdure.v1.Admin/Status", admin.header, NULL), OK);
    assert_int_equal(ask(both, NULL, "/TaskHubSidecarService/GetWorkItems", "Bearer x", NULL),
                     ERR_UNAUTHENTICATED);
    auth_free(both);
}

static void without_keys_and_certificates_all_may_do_all(void **state)
{
    struct auth *a = made(NULL, false, 0);
    size_t n = all_paths();

    (void)state;
    for (size_t i = 0; i < n; i++) {
        expect(ask(a, NULL, paths[i], NULL, NULL), OK, paths[i], "anybody");
        expect(ask(a, NULL, paths[i], "Bearer token", NULL), OK, paths[i], "anybody with a token");
    }
    auth_free(a);
}

/* ---- keys that change ------------------------------------------------------------------------------ */

static void changes_of_the_file_are_noticed(void **state)
{
    static const char GET[] = "/TaskHubSidecarService/GetInstance";
    struct written first, second;
    struct auth_seat seat = {0};
    FILE *f = file();

    (void)state;
    put(f, 1, ROLE_READ, "*", &first);
    fclose(f);
    struct auth *a = made(path, false, 0);
    assert_int_equal(auth_reread(a, false), AUTH_UNCHANGED);
    assert_int_equal(auth_reread(a, true), AUTH_REREAD);
    assert_int_equal(ask(a, &seat, GET, first.header, NULL), OK);
    assert_int_equal(ask(a, &seat, GET, first.header, NULL), OK);

    unlink(path); /* a new file, as `perdure key` makes one */
    f = file();
    put(f, 1, ROLE_WORKER, "*", &first);
    put(f, 2, ROLE_READ, "*", &second);
    fclose(f);
    assert_int_equal(auth_reread(a, false), AUTH_REREAD);
    assert_int_equal(ask(a, &seat, GET, first.header, NULL), ERR_DENIED);
    assert_int_equal(ask(a, &seat, GET, second.header, NULL), OK);

    f = file();
    assert_true(fputs("rubbish\n", f) >= 0);
    fclose(f);
    assert_int_equal(auth_reread(a, false), AUTH_REREAD_FAILED);
    assert_int_equal(auth_reread(a, false), AUTH_UNCHANGED); /* and is said once */
    assert_int_equal(ask(a, &seat, GET, second.header, NULL), OK);
    unlink(path);
    assert_int_equal(auth_reread(a, false), AUTH_REREAD_FAILED);
    assert_int_equal(auth_reread(a, false), AUTH_UNCHANGED);
    assert_int_equal(ask(a, &seat, GET, second.header, NULL), OK);

    f = file();
    fclose(f);
    assert_int_equal(auth_reread(a, false), AUTH_REREAD);
    assert_int_equal(ask(a, &seat, GET, second.header, NULL), ERR_UNAUTHENTICATED);
    auth_seat_deinit(&seat);
    auth_free(a);
}

/* One connection, many keys: what is remembered of one is never taken for another. */
static void a_seat_is_not_a_permission(void **state)
{
    static const char GET[] = "/TaskHubSidecarService/GetInstance";
    struct written reader, worker;
    struct auth_seat seat = {0};
    FILE *f = file();

    (void)state;
    put(f, 1, ROLE_READ, "*", &reader);
    put(f, 2, ROLE_WORKER, "*", &worker);
    fclose(f);
    struct auth *a = made(path, false, 0);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(ask(a, &seat, GET, reader.header, NULL), OK);
        assert_int_equal(ask(a, &seat, GET, worker.header, NULL), ERR_DENIED);
        assert_int_equal(ask(a, &seat, GET, NULL, NULL), ERR_UNAUTHENTICATED);
        struct written wrong = reader;
        wrong.header[sizeof(wrong.header) - 2] ^= 1;
        assert_int_equal(ask(a, &seat, GET, wrong.header, NULL), ERR_UNAUTHENTICATED);
        assert_int_equal(ask(a, &seat, GET, wrong.header, NULL), ERR_UNAUTHENTICATED);
    }
    auth_seat_deinit(&seat);
    auth_free(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_call_with_every_role),
        cmocka_unit_test(unknown_calls_are_for_admin),
        cmocka_unit_test(a_certificate_has_its_roles),
        cmocka_unit_test(without_keys_and_certificates_all_may_do_all),
        cmocka_unit_test(changes_of_the_file_are_noticed),
        cmocka_unit_test(a_seat_is_not_a_permission),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
