import com.microsoft.durabletask.DurableTaskClient;
import com.microsoft.durabletask.DurableTaskGrpcClientBuilder;
import com.microsoft.durabletask.DurableTaskGrpcWorkerBuilder;
import com.microsoft.durabletask.OrchestrationMetadata;
import com.microsoft.durabletask.OrchestrationRuntimeStatus;
import com.microsoft.durabletask.Task;
import com.microsoft.durabletask.TaskActivity;
import com.microsoft.durabletask.TaskActivityContext;
import com.microsoft.durabletask.TaskActivityFactory;
import com.microsoft.durabletask.TaskOrchestration;
import com.microsoft.durabletask.TaskOrchestrationContext;
import com.microsoft.durabletask.TaskOrchestrationFactory;
import io.grpc.ManagedChannel;
import io.grpc.ManagedChannelBuilder;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeoutException;

/**
 * An order, from the stock to the parcel: a worker and a client of Perdure in one program.
 *
 * <p>Its argument is how many seconds the customer may change their mind, 2 without it. The server is the one at
 * $PERDURE_SERVER, localhost:4001 without it.
 */
public final class Order {
    private static final Map<String, Integer> PRICES = Map.of("tea", 5, "cup", 12, "spoon", 3);

    /** What the customer wants. */
    public static final class Wanted {
        public String[] items = {"tea", "unicorn", "cup", "spoon"};
        public int seconds;
    }

    /** The payment, as it comes from outside. */
    public static final class Payment {
        public String by;
    }

    // ---- activities: they do the work, and run again if their worker dies before it has answered ----

    static Object checkStock(TaskActivityContext ctx) {
        return Arrays.stream(ctx.getInput(String[].class)).filter(PRICES::containsKey).toArray();
    }

    static Object addUp(TaskActivityContext ctx) {
        return Arrays.stream(ctx.getInput(String[].class)).mapToInt(PRICES::get).sum();
    }

    static Object pack(TaskActivityContext ctx) {
        return "boxed " + ctx.getInput(String.class);
    }

    static Object label(TaskActivityContext ctx) {
        return "parcel of " + String.join(", ", ctx.getInput(String[].class));
    }

    // ---- orchestrations: they say what comes next, and are replayed from their history ----

    static void order(TaskOrchestrationContext ctx) {
        Wanted wanted = ctx.getInput(Wanted.class);
        // A chain: each activity gets what the one before has given.
        String[] items = ctx.callActivity("checkStock", wanted.items, String[].class).await();
        int total = ctx.callActivity("addUp", items, Integer.class).await();
        // Fan-out and fan-in: all at once, and then all results.
        List<Task<String>> packing = new ArrayList<>();
        for (String item : items) {
            packing.add(ctx.callActivity("pack", item, String.class));
        }
        List<String> boxes = ctx.allOf(packing).await();
        // A durable timer: it rings also if the server was down in between.
        ctx.createTimer(Duration.ofSeconds(wanted.seconds)).await();
        // An event from outside. It may have come long before: the server keeps it.
        Payment payment = ctx.waitForExternalEvent("payment", Payment.class).await();
        // A sub-orchestration.
        String parcel = ctx.callSubOrchestrator("ship", boxes, String.class).await();
        ctx.complete(payment.by + " paid " + total + " for a " + parcel);
    }

    static void ship(TaskOrchestrationContext ctx) {
        ctx.complete(ctx.callActivity("label", ctx.getInput(String[].class), String.class).await());
    }

    // ---- the client ----

    /** Waits for the end of an instance, however often the server is restarted meanwhile. */
    static OrchestrationMetadata finish(DurableTaskClient client, String instance) throws InterruptedException {
        while (true) {
            try {
                return client.waitForInstanceCompletion(instance, Duration.ofSeconds(60), true);
            } catch (TimeoutException e) {
                continue;
            } catch (StatusRuntimeException e) {
                if (e.getStatus().getCode() != Status.Code.UNAVAILABLE) {
                    throw e;
                }
                Thread.sleep(1000);
            }
        }
    }

    static TaskOrchestrationFactory orchestration(String name, TaskOrchestration f) {
        return new TaskOrchestrationFactory() {
            @Override
            public String getName() {
                return name;
            }

            @Override
            public TaskOrchestration create() {
                return f;
            }
        };
    }

    static TaskActivityFactory activity(String name, TaskActivity f) {
        return new TaskActivityFactory() {
            @Override
            public String getName() {
                return name;
            }

            @Override
            public TaskActivity create() {
                return f;
            }
        };
    }

    static int run(String address, int seconds) throws InterruptedException {
        ManagedChannel channel = ManagedChannelBuilder.forTarget(address).usePlaintext().build();
        new DurableTaskGrpcWorkerBuilder()
                .grpcChannel(channel)
                .addOrchestration(orchestration("order", Order::order))
                .addOrchestration(orchestration("ship", Order::ship))
                .addActivity(activity("checkStock", Order::checkStock))
                .addActivity(activity("addUp", Order::addUp))
                .addActivity(activity("pack", Order::pack))
                .addActivity(activity("label", Order::label))
                .build()
                .start();

        DurableTaskClient client = new DurableTaskGrpcClientBuilder().grpcChannel(channel).build();
        Wanted wanted = new Wanted();
        wanted.seconds = seconds;
        String instance = client.scheduleNewOrchestrationInstance("order", wanted);
        System.out.println(instance + " started");
        client.raiseEvent(instance, "payment", Map.of("by", "Ada"));

        OrchestrationMetadata state = finish(client, instance);
        boolean completed = state.getRuntimeStatus() == OrchestrationRuntimeStatus.COMPLETED;
        String result = completed ? state.readOutputAs(String.class)
                : state.getFailureDetails() != null ? state.getFailureDetails().getErrorMessage() : "";
        System.out.println(instance + " " + state.getRuntimeStatus() + ": " + result);
        return completed ? 0 : 1;
    }

    public static void main(String[] args) {
        int status = 1;
        try {
            String address = System.getenv().getOrDefault("PERDURE_SERVER", "localhost:4001");
            status = run(address, args.length > 0 ? Integer.parseInt(args[0]) : 2);
        } catch (Exception e) {
            e.printStackTrace();
        }
        System.exit(status); // the worker's thread would keep the program alive
    }
}
