#include "sim/hits.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"

uint64_t hits[HIT_COUNT];

#define ROWS_MAX 512
static struct {
    char *name;
    uint64_t count;
} rows[ROWS_MAX];
static size_t row_count;

void hits_row(const char *name, uint64_t count)
{
    size_t i = 0;
    while (i < row_count && strcmp(rows[i].name, name) != 0)
        i++;
    if (i == row_count) {
        ASSERT(row_count < ROWS_MAX);
        rows[row_count++].name = strdup(name);
    }
    rows[i].count += count;
}

static bool print(const char *what, uint64_t count)
{
    printf("%10llu  %s%s\n", (unsigned long long)count, what, count ? "" : "  <-- NEVER");
    return count > 0;
}

#define HITS_TEXT(name, text) text,
static const char *const TEXTS[HIT_COUNT] = {HITS_TABLE(HITS_TEXT)};
#undef HITS_TEXT

bool hits_print(void)
{
    bool all = true;
    for (size_t i = 0; i < HIT_COUNT; i++)
        all = print(TEXTS[i], hits[i]) && all;
    for (size_t i = 0; i < row_count; i++)
        all = print(rows[i].name, rows[i].count) && all;
    return all;
}

void hits_table(void)
{
    for (size_t i = 0; i < HIT_COUNT; i++)
        printf("hit %llu %s\n", (unsigned long long)hits[i], TEXTS[i]);
    for (size_t i = 0; i < row_count; i++)
        printf("hit %llu %s\n", (unsigned long long)rows[i].count, rows[i].name);
}
