/* text.h - what commands print for people: aligned columns, and text that cannot drive a terminal.
 *
 * Everything goes to stdout through a strbuf; output_flush() notices that nobody could read it.
 * Tests: tests/unit/test_cli_text.c
 */
#pragma once

#include <jansson.h>

#include "base/strbuf.h"
#include "base/time.h"

/* Appends `text` with control characters as \n, \t, \r or \xNN; at most `chars_max` characters, then "..." (0: all). */
void put_clean(struct strbuf *out, struct bytes text, size_t chars_max);

/* Rows of columns, each as wide as its widest cell. */
struct table {
    struct strbuf cells; /* each cell with a NUL behind it */
    size_t columns, count;
};

void table_init(struct table *t, size_t columns);
void table_cell(struct table *t, struct bytes text); /* cleaned; row by row */
void table_cellf(struct table *t, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* Appends all rows and empties the table. */
void table_put(struct table *t, struct strbuf *out);

/* "12.3 MiB", "512 B"; "3h 2m", "12.345 s", "0.120 ms". */
void put_size(struct strbuf *out, uint64_t bytes);
void put_span(struct strbuf *out, usec_t span);

/* Writes and flushes. ERR_IO: stdout took not all of it. */
MUST_CHECK enum err output_text(const struct strbuf *text, struct error *err);
/* One line of JSON; takes the reference. */
MUST_CHECK enum err output_json(json_t *document, struct error *err);
