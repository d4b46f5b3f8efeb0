"""The tables of docs/benchmarks.md, from the figures of compare.py."""

import statistics

from systems import SYSTEMS

BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"
OURS = "Perdure"
FLUSHED = {s.NAME: s.FLUSHED for s in SYSTEMS}


def number(v):
    """Three digits, and a comma every three."""
    if v >= 100:
        return f"{v:,.0f}"
    return f"{v:.1f}" if v >= 10 else f"{v:.2f}"


def spread(values):
    if not values:
        return "-"
    return f"{number(statistics.median(values))} ({number(min(values))}-{number(max(values))})"


class Figures:
    def __init__(self, result):
        self.rounds, self.about = result["rounds"], result["about"]
        self.names = list(self.about)
        self.flushes = result["flushes"]

    def of(self, name, run, get):
        """One value a round; fewer where it was not measured."""
        return [get(r[name][run]) for r in self.rounds if run in r.get(name, {})]

    def median(self, name, run, get):
        values = self.of(name, run, get)
        return statistics.median(values) if values else None


def cpu(f):
    return f["cpuUs"]


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "| " + " | ".join("---" for _ in head) + " |"]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def ratios(figures, runs):
    """CPU an operation: median and spread, times a POST, times ours."""
    rows = []
    for name, pairs in runs:
        row = [name, FLUSHED[name]]
        for run, ours in pairs:
            own, base = figures.median(name, run, cpu), figures.median(OURS, ours, cpu)
            if own is None:
                row += ["-", "-", "-"]
                continue
            row += [spread(figures.of(name, run, cpu)), number(figures.median(name, run, lambda f: f["posts"])),
                    number(own / base) if base else "-"]
        if any(cell != "-" for cell in row[2:]):
            rows.append(row)
    return rows


def cpu_tables(figures, quick):
    head = ["", "on the disk when it answers", "hello1, µs", "POSTs", "× ours", "chain5, µs", "POSTs", "× ours"]
    wide = [(n, [("hello1@64", "hello1@64"), ("chain5@64", "chain5@64")]) for n in figures.names]
    small = [(n, [("hello1@8", "hello1@8"), ("chain5@8", "chain5@8")]) for n in figures.names]
    yield "CPU of the server an orchestration, concurrency 64:", table(head, ratios(figures, wide))
    yield "The same at concurrency 8, which is all that the Python in-memory backend can do as it is:", \
        table(head, ratios(figures, small))
    rows = []
    for name in figures.names:
        row = [name, FLUSHED[name]]
        for run, steps in (("chain50@64", 50), ("fanout100@64", 100)):
            row.append(spread(figures.of(name, run, lambda f, n=steps: f["cpuUs"] / n)))
        if any(cell != "-" for cell in row[2:]):
            rows.append(row)
    yield "CPU of the server an activity (Restate: a step), concurrency 64, µs:", \
        table(["", "on the disk", "chain50", "fanout100"], rows)
    if not quick:
        runs = ["timer", "event", "suborch", "continue-as-new"]
        rows = []
        for name in figures.names:
            wide = 8 if name == "Python in-memory" else 64
            rows.append([name, FLUSHED[name]] + [spread(figures.of(name, f"{r}@{wide}", cpu)) for r in runs])
        yield "CPU of the server an orchestration, µs (Python in-memory at concurrency 8):", \
            table(["", "on the disk"] + runs, rows)


def latency_table(figures):
    rows = []
    for name in figures.names:
        rows.append([name, FLUSHED[name], spread(figures.of(name, "hello1@1", lambda f: f["latencyMs"]["p50"])),
                     spread(figures.of(name, "hello1@1", lambda f: f["latencyMs"]["p99"])),
                     spread(figures.of(name, "hello1@64", lambda f: f["rate"])),
                     spread(figures.of(name, "chain5@64", lambda f: f["rate"]))])
    return table(["", "on the disk", "hello1 alone, p50 ms", "p99 ms", "hello1 at 64, a second", "chain5 at 64, a second"], rows)


def flush_table(figures):
    rows = []
    for name in figures.names:
        f = figures.flushes.get(name)
        run = "hello1@8" if name == "Python in-memory" else "hello1@64"
        written = spread([v / 1024 for v in figures.of(name, run, lambda f: f["writtenBytes"]) if v is not None])
        if f:
            calls = ", ".join(f["calls"]) or "none"
            rows.append([name, f"{f['waited']:.0f}" if f["calls"] else "0", number(f["alone"]), number(f["loaded"]), calls, written])
        else:
            rows.append([name, "-", "-", "-", "-", written])
    return table(["", "an answer waits for", "flushes alone", "flushes under load", "by", "KiB written under load"], rows)


def start_table(figures):
    rows = []
    for name in figures.names:
        rows.append([name, spread(figures.of(name, "start", lambda f: f["readyMs"])),
                     spread(figures.of(name, "start", lambda f: f["rssBytes"] / 2**20)),
                     spread(figures.of(name, "start", lambda f: f["cpuMs"]))])
    return table(["", "start to ready, ms", "resident idle, MiB", "CPU idle, ms a second"], rows)


def render(result):
    f = Figures(result)
    disk = result["disk"]
    parts = [
        f"Measured on {result['date']}{' (--quick)' if result['quick'] else ''}: {len(result['rounds'])} rounds, "
        f"{result['cores']} cores, Linux {result['kernel']}, "
        f"average load at the end {result.get('load', 0):.1f}. "
        f"A POST to nghttpd took {spread([r['nghttpd'] for r in result['rounds']])} µs of CPU, "
        f"a flush of the disk {number(disk['inPlace']['p50'])} ms (p99 {number(disk['inPlace']['p99'])}) where the file "
        f"was long enough, {number(disk['appended']['p50'])} ms (p99 {number(disk['appended']['p99'])}) where it grew.",
    ]
    for title, text in cpu_tables(f, result["quick"]):
        parts += [title, text]
    parts += ["Latency and throughput (clients, workers and server share the cores):", latency_table(f),
              "What is flushed, an orchestration of hello1:", flush_table(f), "At rest:", start_table(f)]
    return "\n\n".join(parts)


def update(page, text):
    old = page.read_text()
    before, after = old[: old.index(BEGIN)], old[old.index(END):]
    page.write_text(f"{before}{BEGIN}\n\n{text}\n\n{after}")
