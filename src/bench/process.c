#include "bench/process.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/assert.h"

#define PROCESSES_MAX 4096

struct process {
    int pid, parent;
    uint64_t children_ticks; /* CPU of children that were waited for */
    bool is_ours;
};

/* A whole small file of /proc/PID; empty when it cannot be read. */
static size_t read_file(int pid, const char *name, char *out, size_t size)
{
    char path[64];

    snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
    FILE *f = fopen(path, "re");
    size_t n = f ? fread(out, 1, size - 1, f) : 0;
    if (f)
        fclose(f);
    out[n] = 0;
    return n;
}

/* The number behind `key` at the beginning of a line; false: there is none. */
static bool find_number(const char *text, const char *key, uint64_t *out)
{
    size_t len = strlen(key);

    for (const char *p = text; p; p = strchr(p, '\n')) {
        p += *p == '\n';
        if (!strncmp(p, key, len))
            return sscanf(p + len, "%" SCNu64, out) == 1;
    }
    return false;
}

static bool read_process(int pid, struct process *out)
{
    char text[1024];
    unsigned long user = 0, system = 0;

    read_file(pid, "stat", text, sizeof(text));
    const char *behind = strrchr(text, ')'); /* the name may hold anything */
    *out = (struct process){.pid = pid};
    if (!behind || sscanf(behind + 1, " %*c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %lu %lu",
                          &out->parent, &user, &system) != 3)
        return false;
    out->children_ticks = user + system;
    return true;
}

static size_t list_processes(struct process *out, size_t max)
{
    DIR *d = opendir("/proc");
    size_t n = 0;

    for (struct dirent *e; d && n < max && (e = readdir(d));) {
        uint64_t pid;
        if (bytes_parse_u64(bytes_str(e->d_name), &pid) && pid > 0 && pid <= INT32_MAX)
            n += read_process((int)pid, &out[n]);
    }
    if (d)
        closedir(d);
    return n;
}

/* Marks `pid` and its descendants: again until nothing changes, since numbers say nothing about age. */
static void mark_tree(struct process *list, size_t count, int pid)
{
    for (bool changed = true; changed;) {
        changed = false;
        for (size_t i = 0; i < count; i++) {
            bool is_ours = list[i].pid == pid;
            for (size_t j = 0; j < count && !is_ours; j++)
                is_ours = list[j].is_ours && list[j].pid == list[i].parent;
            changed |= is_ours && !list[i].is_ours;
            list[i].is_ours = is_ours;
        }
    }
}

static void add_process(struct process_use *use, const struct process *p, uint64_t ticks_per_sec)
{
    char text[4096];
    usec_t cpu;
    uint64_t kib;

    if (!clock_process_cpu(p->pid, &cpu))
        return; /* it has just ended */
    use->is_known = true;
    use->count++;
    use->cpu += cpu + (usec_t)(p->children_ticks * (uint64_t)USEC_PER_SEC / ticks_per_sec);
    read_file(p->pid, "status", text, sizeof(text));
    if (find_number(text, "VmRSS:", &kib))
        use->rss_bytes += kib * 1024;
    if (find_number(text, "VmHWM:", &kib))
        use->rss_peak_bytes += kib * 1024;
    uint64_t written = 0, cancelled = 0;
    read_file(p->pid, "io", text, sizeof(text));
    use->knows_written &= find_number(text, "write_bytes:", &written) &&
                          find_number(text, "cancelled_write_bytes:", &cancelled);
    use->written_bytes += written - MIN(written, cancelled);
}

struct process_use process_tree_use(int pid)
{
    struct process_use use = {.knows_written = true};
    struct process *list = pid > 0 ? calloc(PROCESSES_MAX, sizeof(*list)) : NULL;
    long ticks = sysconf(_SC_CLK_TCK);

    if (!list)
        return (struct process_use){0};
    size_t n = list_processes(list, PROCESSES_MAX);
    mark_tree(list, n, pid);
    for (size_t i = 0; i < n; i++)
        if (list[i].is_ours)
            add_process(&use, &list[i], ticks > 0 ? (uint64_t)ticks : 100);
    use.knows_written &= use.is_known;
    free(list);
    return use;
}
