#include "store_fixture.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

void store_fixture_init(struct store_fixture *f, const char *kind)
{
    *f = (struct store_fixture){0};
    settings_defaults(&f->settings);
    prng_seed(&f->prng, 1);
    if (strcmp(kind, "memory") == 0) {
        f->is_memory = true;
        (void)snprintf(f->url, sizeof(f->url), "memory");
        return;
    }
    const char *tmp = getenv("TMPDIR");
    (void)snprintf(f->dir, sizeof(f->dir), "%s/perdure-store-XXXXXX", tmp ? tmp : "/tmp");
    assert_non_null(mkdtemp(f->dir));
    if ((size_t)snprintf(f->path, sizeof(f->path), "%s/s.db", f->dir) >= sizeof(f->path))
        abort();
    (void)snprintf(f->url, sizeof(f->url), "sqlite:%s", f->path);
}

static void remove_files(const char *dir)
{
    DIR *d = opendir(dir);
    char path[PATH_MAX];

    for (struct dirent *e; d && (e = readdir(d));)
        if (e->d_name[0] != '.' &&
            (size_t)snprintf(path, sizeof(path), "%s/%s", dir, e->d_name) < sizeof(path))
            (void)unlink(path);
    if (d)
        closedir(d);
    (void)rmdir(dir);
}

void store_fixture_deinit(struct store_fixture *f)
{
    store_fixture_close(f);
    if (f->dir[0])
        remove_files(f->dir);
}

enum err store_fixture_try_open(struct store_fixture *f, struct error *err)
{
    struct store_options opts = {
        .url = bytes_str(f->url),
        .settings = &f->settings,
        .clock = clock_system(),
        .prng = &f->prng,
        .vfs = f->vfs,
        .partitions = f->partitions,
    };
    enum err e = store_open(&opts, &f->st, err);

    f->r = e ? NULL : store_reader(f->st);
    return e;
}

void store_fixture_open(struct store_fixture *f)
{
    OKAY(store_fixture_try_open(f, &err));
}

void store_fixture_close(struct store_fixture *f)
{
    store_close(f->st);
    f->st = NULL;
    f->r = NULL;
}

void store_fixture_again(struct store_fixture *f)
{
    if (f->is_memory)
        return;
    store_fixture_close(f);
    store_fixture_open(f);
}

static const char *backend;

int store_fixture_set_up(void **state)
{
    struct store_fixture *f = malloc(sizeof(*f));

    if (!f)
        return -1;
    store_fixture_init(f, backend);
    store_fixture_open(f);
    *state = f;
    return 0;
}

int store_fixture_tear_down(void **state)
{
    store_fixture_deinit(*state);
    free(*state);
    return 0;
}

int store_fixture_run(int argc, char **argv, const struct CMUnitTest *tests, size_t n)
{
    static const char *const ALL[] = {"sqlite", "memory"};
    int failed = 0;

    for (size_t i = 0; i < ARRAY_LEN(ALL); i++) {
        bool named = argc < 2;
        for (int k = 1; k < argc; k++)
            named = named || strcmp(argv[k], ALL[i]) == 0;
        backend = ALL[i];
        if (named)
            failed += _cmocka_run_group_tests(backend, tests, n, NULL, NULL);
    }
    return failed;
}

void store_expect(enum err got, enum err want, const struct error *err, const char *call,
                  const char *file, int line)
{
    if (got == want)
        return;
    print_error("%s\n  gave %s (%s), not %s\n", call, err_name(got), got == OK ? "" : err->msg,
                err_name(want));
    _fail(file, line);
}

struct store_object store_fixture_object(uint64_t key)
{
    return (struct store_object){
        .key = key,
        .hub = 1,
        .kind = 1,
        .partition = 7,
        .id = BYTES_LIT("order-1"),
        .name = BYTES_LIT("Order"),
        .version = BYTES_LIT("1.2"),
        .status = 6,
        .base_status = 5,
        .flags = 0x80000001u,
        .created = 1000000,
        .updated = 2000000,
        .completed = 3000000,
        .scheduled = 4000000,
        .execution = key + 1000,
        .execution_id = BYTES_LIT("e\xc3\xa4"),
        .history_rows = 11,
        .history_events = 12,
        .history_bytes = 13,
        .last_started = 14,
        .inbox_next = 15,
        .inbox_first = -16,
        .cut_seq = -17,
        .cut_time = 18,
        .custom_status = BYTES_LIT("\"half\""),
        .tags = BYTES_LIT("{\"a\":\"b\"}"),
        .trace = BYTES_LIT("\0\1\xff"),
        .parent_id = BYTES_LIT("parent"),
        .parent = BYTES_LIT("\xfe\0"),
    };
}
