/* docs/settings.md has a row for each setting, as base/limits.h has it, and none besides. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/limits.h"

#define PAGE PERDURE_SOURCE_DIR "/docs/settings.md"

/* Without the sections of the specification at the end: "... a hub (3.4)". */
static struct bytes meaning(const struct setting_info *info)
{
    struct bytes text = bytes_str(info->text);
    const char *open = strrchr(info->text, '(');

    if (open && open > info->text && text.ptr[text.len - 1] == ')' &&
        strspn(open + 1, "0123456789., )") == strlen(open + 1))
        text.len = (size_t)(open - info->text) - 1;
    return text;
}

static void put_row(const struct setting_info *info, struct strbuf *out)
{
    strbuf_appendf(out, "| `%s` | ", info->key);
    setting_format(info, info->def, out);
    strbuf_append_str(out, " | ");
    if (info->kind == SETTING_BOOL) {
        strbuf_append_str(out, "true, false");
    } else if (info->kind == SETTING_ROLES) {
        strbuf_append_str(out, "read, client, worker, admin, with commas");
    } else {
        setting_format(info, info->min, out);
        strbuf_append_str(out, " to ");
        setting_format(info, info->max, out);
    }
    strbuf_appendf(out, " | %.*s |\n", BYTES_FMT(meaning(info)));
}

static void every_setting_has_its_row(void **state)
{
    CLEANUP(strbuf_deinit) struct strbuf expected = {0}, found = {0};
    FILE *f = fopen(PAGE, "r");
    char line[1024];

    (void)state;
    if (!f)
        fail_msg("cannot open %s", PAGE);
    for (size_t i = 0; i < SETTING_INFO_COUNT; i++)
        put_row(&SETTING_INFO[i], &expected);
    while (fgets(line, sizeof(line), f))
        if (!strncmp(line, "| `", 3))
            strbuf_append_str(&found, line);
    fclose(f);
    if (!bytes_eq(strbuf_bytes(&expected), strbuf_bytes(&found))) {
        fputs(strbuf_cstr(&expected), stderr); /* longer than cmocka prints */
        fail_msg("the table of docs/settings.md should be as above");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_setting_has_its_row)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
