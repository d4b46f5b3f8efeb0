/* What processes use, as the benchmark reads it: bench/process.h, clock_process_cpu(). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "bench/process.h"

#define NOBODY ((1 << 22) + 1) /* beyond the largest that there can be */
#define BURN (50 * USEC_PER_MSEC)

/* CPU time, so it takes as long on a busy machine. */
static void burn(usec_t cpu)
{
    usec_t begun = 0, now = 0;

    assert_true(clock_process_cpu(getpid(), &begun));
    do
        assert_true(clock_process_cpu(getpid(), &now));
    while (now - begun < cpu);
}

static void nothing_is_known_of_nobody(void **state)
{
    usec_t cpu = 7;
    (void)state;
    assert_false(process_tree_use(0).is_known);
    assert_int_equal(process_tree_use(0).count, 0);
    assert_false(process_tree_use(NOBODY).is_known);
    assert_false(clock_process_cpu(NOBODY, &cpu));
    assert_int_equal(cpu, 7);
}

static void a_process_itself(void **state)
{
    struct process_use before = process_tree_use(getpid());
    (void)state;
    assert_true(before.is_known);
    assert_int_equal(before.count, 1);
    assert_true(before.rss_bytes > KIB(100) && before.rss_bytes <= before.rss_peak_bytes);
    burn(BURN);
    struct process_use after = process_tree_use(getpid());
    assert_true(after.cpu - before.cpu >= BURN);
}

/* A grandchild that lives, and one that has ended: both count, also when the child is asked for. */
static void descendants_count(void **state)
{
    int up[2], down[2];
    char byte = 0;
    (void)state;
    assert_int_equal(pipe(up), 0);
    assert_int_equal(pipe(down), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        close(down[1]);
        pid_t first = fork();
        if (first == 0) {
            burn(BURN);
            _exit(0);
        }
        waitpid(first, NULL, 0);
        if (fork() == 0)
            burn(BURN);
        if (write(up[1], "x", 1) == 1) /* both write */
            (void)!read(down[0], &byte, 1);
        _exit(0);
    }
    assert_int_equal(read(up[0], &byte, 1), 1);
    assert_int_equal(read(up[0], &byte, 1), 1);
    struct process_use of_child = process_tree_use(child), of_all = process_tree_use(getpid());
    assert_int_equal(of_child.count, 2);
    assert_int_equal(of_all.count, 3);
    assert_true(of_child.cpu >=
                2 * BURN - 20 * USEC_PER_MSEC); /* of ended ones: in ticks of 10 ms */
    assert_true(of_all.cpu >= of_child.cpu);
    assert_true(of_all.rss_bytes > of_child.rss_bytes);
    close(down[1]); /* lets both go */
    assert_int_equal(waitpid(child, NULL, 0), child);
    close(down[0]);
    close(up[0]);
    close(up[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_known_of_nobody),
        cmocka_unit_test(a_process_itself),
        cmocka_unit_test(descendants_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
