import com.microsoft.durabletask.DurableTaskClient;
import com.microsoft.durabletask.DurableTaskGrpcClientBuilder;
import com.microsoft.durabletask.DurableTaskGrpcWorkerBuilder;
import com.microsoft.durabletask.NewOrchestrationInstanceOptions;
import com.microsoft.durabletask.OrchestrationMetadata;
import com.microsoft.durabletask.OrchestrationRuntimeStatus;
import com.microsoft.durabletask.RetryPolicy;
import com.microsoft.durabletask.Task;
import com.microsoft.durabletask.TaskActivity;
import com.microsoft.durabletask.TaskActivityFactory;
import com.microsoft.durabletask.TaskFailedException;
import com.microsoft.durabletask.TaskCanceledException;
import com.microsoft.durabletask.TaskOptions;
import com.microsoft.durabletask.TaskOrchestration;
import com.microsoft.durabletask.TaskOrchestrationFactory;
import io.grpc.CallOptions;
import io.grpc.Channel;
import io.grpc.ClientCall;
import io.grpc.ClientInterceptor;
import io.grpc.ClientInterceptors;
import io.grpc.ForwardingClientCall;
import io.grpc.ManagedChannelBuilder;
import io.grpc.Metadata;
import io.grpc.MethodDescriptor;
import io.grpc.StatusRuntimeException;
import java.time.Duration;
import java.time.Instant;
import java.time.ZoneOffset;
import java.time.ZonedDateTime;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.BooleanSupplier;

/**
 * The released Java SDK against a server: java Main [GROUP]...
 *
 * <p>The server's address comes in PERDURE_SERVER, the task hub in PERDURE_HUB (none: no header is sent). Prints
 * `PASS group.test` or `FAIL group.test: why`, a line each. Exit status 1 when one failed.
 *
 * <p>This SDK echoes no completion tokens and runs one work item at a time, on the thread that reads the stream; it
 * never answers an activity whose exception has no message.
 */
public final class Main {
    interface Body {
        void run() throws Exception;
    }

    static DurableTaskClient client;
    static final AtomicInteger number = new AtomicInteger();
    static final Map<String, AtomicInteger> ran = new ConcurrentHashMap<>();
    static final Map<String, CountDownLatch> entered = new ConcurrentHashMap<>();
    static final Map<String, CountDownLatch> release = new ConcurrentHashMap<>();
    static final Map<String, TaskOrchestration> orchestrators = new LinkedHashMap<>();
    static final Map<String, TaskActivity> activities = new LinkedHashMap<>();
    static final Map<String, Body> tests = new LinkedHashMap<>();

    // ---- helpers of tests ----

    static void check(boolean good, String format, Object... args) {
        if (!good) {
            throw new AssertionError(String.format(format, args));
        }
    }

    static String newId() {
        return "java-" + ProcessHandle.current().pid() + "-" + number.incrementAndGet();
    }

    static String start(String name, Object input) {
        return client.scheduleNewOrchestrationInstance(name, input, newId());
    }

    static OrchestrationMetadata finish(String id) throws Exception {
        return client.waitForInstanceCompletion(id, Duration.ofSeconds(40), true);
    }

    static OrchestrationMetadata get(String id) {
        return client.getInstanceMetadata(id, true);
    }

    static OrchestrationRuntimeStatus status(String id) {
        return get(id).getRuntimeStatus();
    }

    static void gives(String id, Object want) throws Exception {
        OrchestrationMetadata state = finish(id);
        check(state.getRuntimeStatus() == OrchestrationRuntimeStatus.COMPLETED, "%s is %s: %s", id,
                state.getRuntimeStatus(), state.getFailureDetails() == null ? "" : state.getFailureDetails().getErrorMessage());
        Object got = state.readOutputAs(want.getClass());
        check(want.equals(got), "%s gives %s, not %s", id, got, want);
    }

    static void eventually(String what, BooleanSupplier condition) throws Exception {
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(20);
        while (!condition.getAsBoolean()) {
            check(System.nanoTime() < end, "did not happen: %s", what);
            Thread.sleep(20);
        }
    }

    static void until(String id, OrchestrationRuntimeStatus want) throws Exception {
        eventually(id + " is " + want, () -> get(id).isInstanceFound() && status(id) == want);
    }

    static int count(String key) {
        return ran.computeIfAbsent(key, k -> new AtomicInteger()).incrementAndGet();
    }

    static CountDownLatch latch(Map<String, CountDownLatch> of, String key) {
        return of.computeIfAbsent(key, k -> new CountDownLatch(1));
    }

    static TaskOptions retry() {
        return new TaskOptions(new RetryPolicy(5, Duration.ofMillis(20)));
    }

    static int sum(List<Integer> list) {
        return list.stream().mapToInt(Integer::intValue).sum();
    }

    // ---- programs ----

    static void programs() {
        activities.put("inc", ctx -> ctx.getInput(Integer.class) + 1);
        activities.put("square", ctx -> ctx.getInput(Integer.class) * ctx.getInput(Integer.class));
        activities.put("echo", ctx -> ctx.getInput(String.class));
        activities.put("fails", ctx -> {
            throw new IllegalStateException("no luck");
        });
        activities.put("flaky", ctx -> {
            int n = count(ctx.getInput(String.class));
            if (n < 3) {
                throw new IllegalStateException("try " + n);
            }
            return n;
        });
        activities.put("held", ctx -> {
            String key = ctx.getInput(String.class);
            count(key);
            latch(entered, key).countDown();
            try {
                latch(release, key).await(30, TimeUnit.SECONDS);
            } catch (InterruptedException e) {
                throw new IllegalStateException("interrupted", e);
            }
            return key;
        });

        orchestrators.put("echoes", ctx -> ctx.complete(ctx.getInput(String.class)));
        orchestrators.put("fails_itself", ctx -> {
            throw new IllegalStateException("that was it");
        });
        orchestrators.put("chain", ctx -> {
            int n = ctx.getInput(Integer.class);
            for (int i = 0; i < 5; i++) {
                n = ctx.callActivity("inc", n, Integer.class).await();
            }
            ctx.complete(n);
        });
        orchestrators.put("fan", ctx -> {
            List<Task<Integer>> tasks = new ArrayList<>();
            for (int i = 0; i < ctx.getInput(Integer.class); i++) {
                tasks.add(ctx.callActivity("square", i, Integer.class));
            }
            ctx.complete(sum(ctx.allOf(tasks).await()));
        });
        orchestrators.put("example", ctx -> {
            String a = ctx.callActivity("echo", ctx.getInput(String.class), String.class).await();
            ctx.createTimer(Duration.ofMillis(20)).await();
            ctx.complete(ctx.callSubOrchestrator("echoes", a, String.class).await());
        });
        orchestrators.put("status", ctx -> {
            ctx.setCustomStatus("one");
            ctx.waitForExternalEvent("go", String.class).await();
            ctx.setCustomStatus("two");
            ctx.complete(1);
        });
        orchestrators.put("catches", ctx -> {
            String name = ctx.getInput(String.class);
            try {
                if (name.equals("child")) {
                    ctx.callSubOrchestrator("fails_itself", null, String.class).await();
                } else {
                    ctx.callActivity(name).await();
                }
                ctx.complete("no failure");
            } catch (TaskFailedException e) {
                ctx.complete(e.getErrorDetails().getErrorMessage());
            }
        });
        orchestrators.put("retries", ctx ->
                ctx.complete(ctx.callActivity("flaky", ctx.getInput(String.class), retry(), Integer.class).await()));
        orchestrators.put("retries_child", ctx -> {
            String key = ctx.getInput(String.class);
            ctx.complete(ctx.callSubOrchestrator("flaky_child", key, key, retry(), Integer.class).await());
        });
        orchestrators.put("flaky_child", ctx ->
                ctx.complete(ctx.callActivity("flaky", ctx.getInput(String.class), Integer.class).await()));
        orchestrators.put("hold", ctx ->
                ctx.complete(ctx.callActivity("held", ctx.getInput(String.class), String.class).await()));
        // The times that the code sees, in each replay: they must be the same, to the nanosecond.
        orchestrators.put("clock", ctx -> {
            String seen = ctx.getCurrentInstant().toString();
            for (int i = 0; i < 3; i++) {
                ctx.callActivity("inc", i, Integer.class).await();
                seen += " " + ctx.getCurrentInstant() + " " + ctx.newUUID();
            }
            latch(entered, "clock " + ctx.getInstanceId() + " " + seen);
            ctx.complete(seen);
        });
        orchestrators.put("sleeps", ctx -> {
            Instant at = ctx.getCurrentInstant().plusMillis(ctx.getInput(Integer.class));
            ctx.createTimer(ZonedDateTime.ofInstant(at, ZoneOffset.UTC)).await();
            ctx.complete(Duration.between(at, ctx.getCurrentInstant()).toNanos());
        });
        orchestrators.put("naps", ctx -> {
            List<Task<Void>> tasks = new ArrayList<>();
            for (int i = 1; i <= 50; i++) {
                tasks.add(ctx.createTimer(Duration.ofMillis(10 * i)));
            }
            ctx.allOf(tasks).await();
            ctx.complete("awake");
        });
        orchestrators.put("times_out", ctx -> {
            try {
                ctx.waitForExternalEvent("go", Duration.ofMillis(200), String.class).await();
                ctx.complete("event");
            } catch (TaskCanceledException e) {
                ctx.complete("timed out");
            }
        });
        orchestrators.put("parent", ctx -> {
            String id = ctx.getInput(String.class);
            ctx.complete(id == null ? ctx.callSubOrchestrator("tells", "x", String.class).await()
                    : ctx.callSubOrchestrator("tells", "x", id, String.class).await());
        });
        orchestrators.put("tells", ctx -> ctx.complete(ctx.getInput(String.class) + " " + ctx.getInstanceId()));
        orchestrators.put("wide", ctx -> {
            List<Task<Integer>> tasks = new ArrayList<>();
            for (int i = 0; i < ctx.getInput(Integer.class); i++) {
                tasks.add(ctx.callSubOrchestrator("doubles", i, Integer.class));
            }
            ctx.complete(sum(ctx.allOf(tasks).await()));
        });
        orchestrators.put("doubles", ctx -> ctx.complete(2 * ctx.getInput(Integer.class)));
        orchestrators.put("waits", ctx -> ctx.complete(ctx.waitForExternalEvent("go", String.class).await()));
        orchestrators.put("parent_of_waits", ctx -> {
            try {
                String child = ctx.getInput(String.class);
                ctx.callSubOrchestrator("waits", null, child, retry(), String.class).await();
                ctx.complete("fine");
            } catch (TaskFailedException e) {
                ctx.complete(e.getErrorDetails().getErrorMessage());
            }
        });
        orchestrators.put("collects", ctx -> {
            int[] got = new int[ctx.getInput(Integer.class)];
            for (int i = 0; i < got.length; i++) {
                got[i] = ctx.waitForExternalEvent("e", Integer.class).await();
            }
            ctx.complete(Arrays.toString(got));
        });
        // This SDK sends its events again in every turn.
        orchestrators.put("sends", ctx -> {
            ctx.sendEvent(ctx.getInput(String.class), "e", 7);
            ctx.sendEvent("nobody-there", "Größe", 1);
            for (int i = 0; i < 5; i++) {
                ctx.callActivity("inc", i, Integer.class).await();
            }
            ctx.complete("sent");
        });
        orchestrators.put("loop", ctx -> {
            int n = ctx.getInput(Integer.class);
            ctx.callActivity("inc", n, Integer.class).await();
            if (n < 10) {
                ctx.continueAsNew(n + 1);
            } else {
                ctx.complete(n);
            }
        });
        // This SDK carries over, in no order, all events of the turn that continues, the one just read included.
        orchestrators.put("carry", ctx -> {
            if (ctx.getInput(Integer.class) == 0) {
                ctx.waitForExternalEvent("go", Integer.class).await();
                ctx.continueAsNew(1, true);
                return;
            }
            int[] got = new int[20];
            for (int i = 0; i < got.length; i++) {
                got[i] = ctx.waitForExternalEvent("e", Integer.class).await();
            }
            Arrays.sort(got);
            ctx.complete(Arrays.toString(got));
        });
        orchestrators.put("eternal", ctx -> {
            ctx.createTimer(Duration.ofMillis(5)).await();
            ctx.continueAsNew(ctx.getInput(Integer.class) + 1);
        });
    }

    static String upTo(int n, String separator) {
        StringBuilder text = new StringBuilder();
        for (int i = 0; i < n; i++) {
            text.append(i).append(separator);
        }
        return text.toString();
    }

    // ---- tests ----

    static void tests() {
        // checklist: 62, 24
        tests.put("start.hello", () -> gives(start("echoes", "hällo"), "hällo"));
        // checklist: 14
        tests.put("start.at", () -> {
            Instant at = Instant.now().plusMillis(1500);
            String id = client.scheduleNewOrchestrationInstance("echoes", new NewOrchestrationInstanceOptions()
                    .setInstanceId(newId()).setInput("x").setStartTime(at));
            check(status(id) == OrchestrationRuntimeStatus.PENDING, "it is %s", status(id));
            gives(id, "x");
            check(!Instant.now().isBefore(at), "early");
        });
        // This SDK restarts by starting the same id without a policy. checklist: 15; reports: BL-069
        tests.put("start.reuse", () -> {
            String id = start("echoes", "x");
            gives(id, "x");
            client.restartInstance(id, false);
            gives(id, "x");
            client.scheduleNewOrchestrationInstance("waits", null, id);
            until(id, OrchestrationRuntimeStatus.RUNNING);
            try {
                client.scheduleNewOrchestrationInstance("echoes", "y", id);
                check(false, "started a second time");
            } catch (StatusRuntimeException e) {
                check(e.getMessage().contains("already exists"), "%s", e.getMessage());
            }
            client.raiseEvent(id, "go", "z");
            gives(id, "z");
        });
        // checklist: 22
        tests.put("start.unknown_and_purged", () -> {
            check(!get("nobody").isInstanceFound(), "nobody is there");
            String id = start("echoes", "x");
            gives(id, "x");
            check(client.purgeInstance(id).getDeletedInstanceCount() == 1, "not purged");
            check(client.purgeInstance(id).getDeletedInstanceCount() == 0, "purged twice");
        });
        // checklist: 144
        tests.put("turns.example", () -> gives(start("example", "x"), "x"));
        // checklist: 39
        tests.put("turns.custom_status", () -> {
            String id = start("status", null);
            eventually("a custom status", () -> "one".equals(get(id).readCustomStatusAs(String.class)));
            client.raiseEvent(id, "go", "x");
            check("two".equals(finish(id).readCustomStatusAs(String.class)), "the last one is not kept");
        });
        tests.put("turns.failure", () -> {
            OrchestrationMetadata state = finish(start("fails_itself", null));
            check(state.getRuntimeStatus() == OrchestrationRuntimeStatus.FAILED, "%s", state.getRuntimeStatus());
            check(state.getFailureDetails().getErrorMessage().contains("that was it"), "%s", state.getFailureDetails());
        });
        // checklist: 146
        tests.put("turns.times_of_replays", () -> {
            String id = start("clock", null);
            String last = finish(id).readOutputAs(String.class);
            long versions = entered.keySet().stream().filter(k -> k.startsWith("clock " + id + " ")).count();
            check(versions == 1, "%d versions of %s", versions, last);
        });
        tests.put("turns.many_at_once", () -> {
            List<String> ids = new ArrayList<>();
            for (int n = 0; n < 50; n++) {
                ids.add(start("chain", n * 10));
            }
            for (int n = 0; n < 50; n++) {
                gives(ids.get(n), n * 10 + 5);
            }
        });
        tests.put("activities.chain", () -> gives(start("chain", 1), 6));
        // Its worker holds at most tokenless.unsettled items. checklist-partial: 160; reports: BL-096
        tests.put("activities.fan_out", () -> {
            gives(start("fan", 100), 328350);
            gives(start("fan", 500), 41541750);
        });
        tests.put("activities.failure", () -> gives(start("catches", "fails"), "no luck"));
        tests.put("activities.retries", () -> gives(start("retries", newId()), 3));
        // orchestratorStarted is later than fireAt, or this SDK would make another timer. checklist: 63, 64, 146
        tests.put("timers.short", () -> {
            for (int ms : new int[] {0, -1000, 1, 300}) {
                long late = finish(start("sleeps", ms)).readOutputAs(Long.class);
                // 0 is fine: the SDK sends fireAt in whole milliseconds, which is before this instant.
                check(late >= 0 && late < 5_000_000_000L, "%d ns late", late);
            }
        });
        // reports: BL-040
        tests.put("timers.many", () -> gives(start("naps", null), "awake"));
        tests.put("timers.against_event", () -> gives(start("times_out", null), "timed out"));
        // checklist: 67
        tests.put("children.given_id", () -> {
            String child = newId();
            gives(start("parent", child), "x " + child);
            check(finish(start("parent", null)).readOutputAs(String.class).startsWith("x "), "no child");
        });
        // checklist: 74
        tests.put("children.fan_out", () -> gives(start("wide", 100), 9900));
        // checklist: 68
        tests.put("children.failure", () -> gives(start("catches", "child"), "that was it"));
        // checklist: 70
        tests.put("children.retries", () -> gives(start("retries_child", newId()), 3));
        // A terminated child is not tried again: its failure is non-retriable. checklist: 69
        tests.put("children.terminated", () -> {
            String child = newId();
            String id = start("parent_of_waits", child);
            until(child, OrchestrationRuntimeStatus.RUNNING);
            client.terminate(child, "why");
            String out = finish(id).readOutputAs(String.class);
            check(out.contains("Sub-orchestration instance '" + child + "' was terminated."), "%s", out);
            check(status(child) == OrchestrationRuntimeStatus.TERMINATED, "it was tried again");
        });
        // checklist: 75
        tests.put("events.in_order", () -> {
            String id = start("collects", 50);
            for (int n = 0; n < 50; n++) {
                client.raiseEvent(id, "e", n);
            }
            gives(id, "[" + upTo(50, ", ").replaceAll(", $", "") + "]");
            client.raiseEvent(id, "e", 51);
        });
        // checklist: 150, 76
        tests.put("events.sent_every_turn", () -> {
            String target = start("collects", 2);
            until(target, OrchestrationRuntimeStatus.RUNNING);
            gives(start("sends", target), "sent");
            client.raiseEvent(target, "e", 8);
            gives(target, "[7, 8]");
        });
        // checklist: 79, 153
        tests.put("suspend.and_resume", () -> {
            String id = start("collects", 3);
            until(id, OrchestrationRuntimeStatus.RUNNING);
            client.suspendInstance(id, "a reason");
            check(status(id) == OrchestrationRuntimeStatus.SUSPENDED, "not at once");
            for (int n = 0; n < 3; n++) {
                client.raiseEvent(id, "e", n);
            }
            client.resumeInstance(id);
            gives(id, "[0, 1, 2]");
        });
        // checklist: 82, 87
        tests.put("terminate.running_and_suspended", () -> {
            for (boolean suspended : new boolean[] {false, true}) {
                String id = start("waits", null);
                until(id, OrchestrationRuntimeStatus.RUNNING);
                if (suspended) {
                    client.suspendInstance(id);
                }
                client.terminate(id, "enough");
                OrchestrationMetadata state = finish(id);
                check(state.getRuntimeStatus() == OrchestrationRuntimeStatus.TERMINATED, "%s", state.getRuntimeStatus());
                check("enough".equals(state.readOutputAs(String.class)), "%s", state.getSerializedOutput());
                client.terminate(id, "again");
            }
            client.terminate("nobody", null);
        });
        // Its thread would die if an event of the batch resumed the code that is being terminated. checklist: 151
        tests.put("terminate.raise_and_terminate_in_a_burst", () -> {
            for (int n = 0; n < 100; n++) {
                String id = start("waits", null);
                until(id, OrchestrationRuntimeStatus.RUNNING);
                client.raiseEvent(id, "other", "x");
                client.raiseEvent(id, "go", "x");
                client.terminate(id, "burst");
                check(finish(id).isCompleted(), "%s goes on", id);
            }
            gives(start("chain", 1), 6);
        });
        // checklist: 85; reports: BL-054
        tests.put("terminate.eternal", () -> {
            String id = start("eternal", 0);
            eventually("generations", () -> get(id).readInputAs(Integer.class) > 3);
            client.terminate(id, "stop");
            check(finish(id).getRuntimeStatus() == OrchestrationRuntimeStatus.TERMINATED, "it goes on");
        });
        // checklist: 89
        tests.put("continue-as-new.loop", () -> {
            String id = start("loop", 0);
            gives(id, 10);
            check(get(id).readInputAs(Integer.class) == 10, "%s", get(id).getSerializedInput());
        });
        // checklist: 78; reports: BL-031
        tests.put("continue-as-new.keeps_events", () -> {
            String id = start("carry", 0);
            until(id, OrchestrationRuntimeStatus.RUNNING);
            for (int n = 0; n < 10; n++) {
                client.raiseEvent(id, "e", n);
            }
            client.raiseEvent(id, "go", 0);
            for (int n = 10; n < 20; n++) {
                client.raiseEvent(id, "e", n);
            }
            gives(id, "[" + upTo(20, ", ").replaceAll(", $", "") + "]");
        });
        // Alone, as it holds the one thread of the worker. checklist: 61
        tests.put("alone.while_suspended", () -> {
            String key = newId();
            String id = start("hold", key);
            check(latch(entered, key).await(20, TimeUnit.SECONDS), "the activity does not run");
            client.suspendInstance(id);
            latch(release, key).countDown();
            Thread.sleep(300); // time for what must not happen
            check(status(id) == OrchestrationRuntimeStatus.SUSPENDED, "%s", status(id));
            client.resumeInstance(id);
            gives(id, key);
            check(ran.get(key).get() == 1, "ran %d times", ran.get(key).get());
        });
        // The answer to a result too large to keep is an error; the worker then opens another stream on the same
        // connection, and what it was sent on the old one must come again there. checklist: 158
        tests.put("alone.after_an_error_answer", () -> {
            if (System.getenv("PERDURE_RESULT_LIMIT") == null) {
                return;
            }
            List<String> ids = new ArrayList<>();
            String large = start("large", Integer.parseInt(System.getenv("PERDURE_RESULT_LIMIT")) + 100_000);
            for (int n = 0; n < 20; n++) {
                ids.add(start("chain", n));
            }
            for (int n = 0; n < 20; n++) {
                gives(ids.get(n), n + 5);
            }
            check(get(large).isInstanceFound(), "it is gone");
        });
        activities.put("makes", ctx -> new String(new char[ctx.getInput(Integer.class)]).replace('\0', 'x'));
        orchestrators.put("large", ctx ->
                ctx.complete(ctx.callActivity("makes", ctx.getInput(Integer.class), String.class).await().length()));
    }

    static Channel channel() {
        String address = System.getenv().getOrDefault("PERDURE_SERVER", "localhost:4001");
        String hub = System.getenv("PERDURE_HUB");
        Channel plain = ManagedChannelBuilder.forTarget(address).usePlaintext().build();
        if (hub == null) {
            return plain;
        }
        return ClientInterceptors.intercept(plain, new ClientInterceptor() {
            @Override
            public <Q, A> ClientCall<Q, A> interceptCall(MethodDescriptor<Q, A> method, CallOptions options, Channel next) {
                return new ForwardingClientCall.SimpleForwardingClientCall<Q, A>(next.newCall(method, options)) {
                    @Override
                    public void start(Listener<A> listener, Metadata headers) {
                        headers.put(Metadata.Key.of("taskhub", Metadata.ASCII_STRING_MARSHALLER), hub);
                        super.start(listener, headers);
                    }
                };
            }
        });
    }

    static boolean one(String name, Body body) {
        try {
            body.run();
            System.out.println("PASS " + name);
            return true;
        } catch (Throwable e) {
            StackTraceElement at = Arrays.stream(e.getStackTrace())
                    .filter(f -> f.getClassName().startsWith("Main")).findFirst().orElse(null);
            System.out.println("FAIL " + name + ": " + String.valueOf(e).replace('\n', ' ') + " at " + at);
            return false;
        }
    }

    public static void main(String[] groups) throws Exception {
        java.util.logging.LogManager.getLogManager().reset();
        programs();
        tests();
        DurableTaskGrpcWorkerBuilder builder = new DurableTaskGrpcWorkerBuilder().grpcChannel(channel());
        orchestrators.forEach((name, f) -> builder.addOrchestration(new TaskOrchestrationFactory() {
            @Override
            public String getName() {
                return name;
            }

            @Override
            public TaskOrchestration create() {
                return f;
            }
        }));
        activities.forEach((name, f) -> builder.addActivity(new TaskActivityFactory() {
            @Override
            public String getName() {
                return name;
            }

            @Override
            public TaskActivity create() {
                return f;
            }
        }));
        builder.build().start();
        client = new DurableTaskGrpcClientBuilder().grpcChannel(channel()).build();

        boolean good = true;
        ExecutorService pool = Executors.newCachedThreadPool();
        List<Future<Boolean>> running = new ArrayList<>();
        Map<String, Body> alone = new LinkedHashMap<>();
        for (Map.Entry<String, Body> t : tests.entrySet()) {
            if (groups.length > 0 && Arrays.stream(groups).noneMatch(g -> t.getKey().startsWith(g))) {
                continue;
            }
            if (t.getKey().startsWith("alone.")) {
                alone.put(t.getKey(), t.getValue());
            } else {
                running.add(pool.submit(() -> one(t.getKey(), t.getValue())));
            }
        }
        for (Future<Boolean> f : running) {
            good &= f.get();
        }
        for (Map.Entry<String, Body> t : alone.entrySet()) {
            good &= one(t.getKey(), t.getValue());
        }
        System.out.flush();
        System.exit(good ? 0 : 1); // the worker's thread is no daemon
    }
}
