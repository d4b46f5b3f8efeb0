#include "cli/text.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/assert.h"
#include "base/utf8.h"

#define COLUMNS_MAX 16
#define GAP 2

/* ---- clean text -------------------------------------------------------------------------------- */

static void put_control(struct strbuf *out, uint8_t c)
{
    if (c == '\n')
        strbuf_append_str(out, "\\n");
    else if (c == '\t')
        strbuf_append_str(out, "\\t");
    else if (c == '\r')
        strbuf_append_str(out, "\\r");
    else
        strbuf_appendf(out, "\\x%02x", c);
}

/* Bytes of the character that begins with this byte. */
static size_t char_len(uint8_t first)
{
    return first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
}

void put_clean(struct strbuf *out, struct bytes text, size_t chars_max)
{
    size_t chars = 0;

    for (size_t i = 0; i < text.len; chars++) {
        size_t n = MIN(char_len(text.ptr[i]), text.len - i);
        if (chars_max > 0 && chars == chars_max) {
            strbuf_append_str(out, "...");
            return;
        }
        if (n == 2 && text.ptr[i] == 0xc2 && text.ptr[i + 1] < 0xa0) /* C1 controls, e.g. CSI */
            put_control(out, text.ptr[i + 1]);
        else if (n == 1 && (text.ptr[i] < 0x20 || text.ptr[i] == 0x7f))
            put_control(out, text.ptr[i]);
        else
            strbuf_append(out, text.ptr + i, n);
        i += n;
    }
}

/* ---- tables ------------------------------------------------------------------------------------ */

void table_init(struct table *t, size_t columns)
{
    ASSERT(columns > 0 && columns <= COLUMNS_MAX);
    *t = (struct table){.columns = columns};
}

void table_cell(struct table *t, struct bytes text)
{
    put_clean(&t->cells, text, 0);
    strbuf_append_char(&t->cells, 0);
    t->count++;
}

void table_cellf(struct table *t, const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    strbuf_vappendf(&t->cells, fmt, ap);
    va_end(ap);
    strbuf_append_char(&t->cells, 0);
    t->count++;
}

static struct bytes next_cell(const struct table *t, size_t *at)
{
    struct bytes cell = bytes_str((const char *)t->cells.ptr + *at);

    *at += cell.len + 1;
    return cell;
}

static void measure(const struct table *t, size_t widths[COLUMNS_MAX])
{
    size_t at = 0;

    for (size_t i = 0; i < t->count; i++) {
        size_t width = utf8_length(next_cell(t, &at));
        widths[i % t->columns] = MAX(widths[i % t->columns], width);
    }
}

void table_put(struct table *t, struct strbuf *out)
{
    size_t widths[COLUMNS_MAX] = {0}, at = 0;

    ASSERT(t->count % t->columns == 0);
    measure(t, widths);
    for (size_t i = 0; i < t->count; i++) {
        struct bytes cell = next_cell(t, &at);
        size_t column = i % t->columns;
        bool is_last = column + 1 == t->columns;
        strbuf_append_bytes(out, cell);
        for (size_t n = utf8_length(cell); !is_last && n < widths[column] + GAP; n++)
            strbuf_append_char(out, ' ');
        if (!is_last)
            continue;
        while (out->len > 0 && out->ptr[out->len - 1] == ' ')
            out->len--;
        strbuf_append_char(out, '\n');
    }
    strbuf_deinit(&t->cells);
    t->count = 0;
}

/* ---- amounts ----------------------------------------------------------------------------------- */

void put_size(struct strbuf *out, uint64_t bytes)
{
    static const char *const UNITS[] = {"KiB", "MiB", "GiB", "TiB"};
    double amount = (double)bytes / 1024;
    size_t unit = 0;

    if (bytes < 1024) {
        strbuf_appendf(out, "%" PRIu64 " B", bytes);
        return;
    }
    for (; amount >= 1024 && unit + 1 < ARRAY_LEN(UNITS); unit++)
        amount /= 1024;
    strbuf_appendf(out, "%.1f %s", amount, UNITS[unit]);
}

void put_span(struct strbuf *out, usec_t span)
{
    usec_t seconds = span / USEC_PER_SEC, minutes = seconds / 60, hours = minutes / 60;

    if (hours >= 24)
        strbuf_appendf(out, "%" PRId64 "d %" PRId64 "h", hours / 24, hours % 24);
    else if (hours > 0)
        strbuf_appendf(out, "%" PRId64 "h %" PRId64 "m", hours, minutes % 60);
    else if (minutes > 0)
        strbuf_appendf(out, "%" PRId64 "m %" PRId64 "s", minutes, seconds % 60);
    else if (seconds > 0)
        strbuf_appendf(out, "%.3f s", (double)span / 1e6);
    else
        strbuf_appendf(out, "%.3f ms", (double)span / 1e3);
}

/* ---- out --------------------------------------------------------------------------------------- */

enum err output_text(const struct strbuf *text, struct error *err)
{
    bool is_ok = fwrite(text->ptr, 1, text->len, stdout) == text->len;

    if (fflush(stdout) || !is_ok)
        return error_set(err, ERR_IO, "could not write the answer: %s", strerror(errno));
    return OK;
}

enum err output_json(json_t *document, struct error *err)
{
    CLEANUP(strbuf_deinit) struct strbuf line = {0};
    char *text = json_dumps(document, JSON_COMPACT | JSON_ENCODE_ANY);

    ASSERT(text);
    strbuf_append_str(&line, text);
    strbuf_append_char(&line, '\n');
    free(text);
    json_decref(document);
    return output_text(&line, err);
}
