/* Prometheus text: metrics.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <string.h>

#include <cmocka.h>

#include "base/metrics.h"

static void renders_counters_and_gauges(void **state)
{
    struct metrics *m = metrics_new();
    CLEANUP(strbuf_deinit) struct strbuf out = {0};
    (void)state;
    struct counter *ok =
        metrics_counter(m, "rpc_total", "code=\"OK\"", "calls, by\ncode \\ method");
    struct counter *bad = metrics_counter(m, "rpc_total", "code=\"UNKNOWN\"", "");
    struct gauge *open = metrics_gauge(m, "connections", "", "open connections");
    counter_add(ok, 2);
    counter_add(ok, 3);
    counter_add(bad, 1);
    gauge_set(open, 7);
    gauge_add(open, -9);
    assert_int_equal(counter_get(ok), 5);
    assert_int_equal(gauge_get(open), -2);
    metrics_render(m, &out);
    assert_string_equal(strbuf_cstr(&out), "# HELP rpc_total calls, by\\ncode \\\\ method\n"
                                           "# TYPE rpc_total counter\n"
                                           "rpc_total{code=\"OK\"} 5\n"
                                           "rpc_total{code=\"UNKNOWN\"} 1\n"
                                           "# HELP connections open connections\n"
                                           "# TYPE connections gauge\n"
                                           "connections -2\n");
    metrics_free(m);
    metrics_free(NULL);
}

static void expect_line(const char *text, const char *line)
{
    const char *at = strstr(text, line);
    if (!at || (at != text && at[-1] != '\n') || at[strlen(line)] != '\n')
        fail_msg("no line \"%s\" in:\n%s", line, text);
}

static void histograms_count_up_to_each_bound(void **state)
{
    struct metrics *m = metrics_new();
    CLEANUP(strbuf_deinit) struct strbuf out = {0};
    (void)state;
    struct histogram *items = metrics_histogram(m, "batch", "", "commands a commit", 1);
    struct histogram *time = metrics_histogram(m, "commit_seconds", "store=\"a\"", "time", 1e6);
    static const uint64_t VALUES[] = {0, 1, 2, 3, 4, 5, 1 << 26, (1 << 26) + 1, UINT64_MAX / 4};
    for (size_t i = 0; i < ARRAY_LEN(VALUES); i++)
        histogram_observe(items, VALUES[i]);
    histogram_observe(time, 1500000);
    metrics_render(m, &out);
    const char *text = strbuf_cstr(&out);
    expect_line(text, "# TYPE batch histogram");
    expect_line(text, "batch_bucket{le=\"1\"} 2");
    expect_line(text, "batch_bucket{le=\"2\"} 3");
    expect_line(text, "batch_bucket{le=\"4\"} 5");
    expect_line(text, "batch_bucket{le=\"8\"} 6");
    expect_line(text, "batch_bucket{le=\"67108864\"} 7");
    expect_line(text, "batch_bucket{le=\"+Inf\"} 9");
    expect_line(text, "batch_count 9");
    expect_line(text, "commit_seconds_bucket{store=\"a\",le=\"1e-06\"} 0");
    expect_line(text, "commit_seconds_bucket{store=\"a\",le=\"1.048576\"} 0");
    expect_line(text, "commit_seconds_bucket{store=\"a\",le=\"2.097152\"} 1");
    expect_line(text, "commit_seconds_bucket{store=\"a\",le=\"+Inf\"} 1");
    expect_line(text, "commit_seconds_sum{store=\"a\"} 1.5");
    expect_line(text, "commit_seconds_count{store=\"a\"} 1");
    metrics_free(m);
}

static void set_gauge(void *arg)
{
    gauge_add(arg, 1);
}

static void hooks_run_before_each_rendering(void **state)
{
    struct metrics *m = metrics_new();
    CLEANUP(strbuf_deinit) struct strbuf out = {0};
    (void)state;
    metrics_on_render(m, set_gauge, metrics_gauge(m, "a", "", "a"));
    metrics_on_render(m, set_gauge, metrics_gauge(m, "b", "", "b"));
    metrics_render(m, &out);
    strbuf_reset(&out);
    metrics_render(m, &out);
    expect_line(strbuf_cstr(&out), "a 2");
    expect_line(strbuf_cstr(&out), "b 2");
    metrics_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(renders_counters_and_gauges),
        cmocka_unit_test(histograms_count_up_to_each_bound),
        cmocka_unit_test(hooks_run_before_each_rendering),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
