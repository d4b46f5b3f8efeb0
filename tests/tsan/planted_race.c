/* planted_race.c - two threads fill one arena, which is for one thread: what the thread sanitizer must report.
 *
 * tests/suites/03-tsan.sh runs it as it runs the tests, and wants the report: a sanitizer that is switched off, or a suppression that
 * hides too much, would show here.
 */
#include <pthread.h>
#include <stdio.h>

#include "base/arena.h"
#include "base/assert.h"

#define ALLOCATIONS 10000

static pthread_barrier_t both;

static void *fill(void *arg)
{
    pthread_barrier_wait(&both);
    for (int i = 0; i < ALLOCATIONS; i++)
        *(uint8_t *)arena_alloc(arg, 16) = 1;
    return NULL;
}

int main(void)
{
    pthread_t threads[2];
    struct arena *a = arena_create();
    pthread_barrier_init(&both, NULL, 2);
    for (size_t i = 0; i < ARRAY_LEN(threads); i++)
        ASSERT(pthread_create(&threads[i], NULL, fill, a) == 0);
    for (size_t i = 0; i < ARRAY_LEN(threads); i++)
        pthread_join(threads[i], NULL);
    printf("filled\n"); /* the arena may be broken by now: it is left as it is */
    return 0;
}
