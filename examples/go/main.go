// An order, from the stock to the parcel: a worker and a client of Perdure in one program.
//
//	go run . [SECONDS]
//
// SECONDS is how long the customer may change their mind, 2 without it. The server is the one at
// $PERDURE_SERVER, localhost:4001 without it.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/microsoft/durabletask-go/api"
	"github.com/microsoft/durabletask-go/backend"
	"github.com/microsoft/durabletask-go/client"
	"github.com/microsoft/durabletask-go/task"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

type wanted struct {
	Items   []string `json:"items"`
	Seconds int      `json:"seconds"`
}

type payment struct {
	By string `json:"by"`
}

var prices = map[string]int{"tea": 5, "cup": 12, "spoon": 3}

// ---- activities: they do the work, and run again if their worker dies before it has answered ----

func checkStock(ctx task.ActivityContext) (any, error) {
	var items, there []string
	if err := ctx.GetInput(&items); err != nil {
		return nil, err
	}
	for _, item := range items {
		if _, ok := prices[item]; ok {
			there = append(there, item)
		}
	}
	return there, nil
}

func addUp(ctx task.ActivityContext) (any, error) {
	var items []string
	if err := ctx.GetInput(&items); err != nil {
		return nil, err
	}
	sum := 0
	for _, item := range items {
		sum += prices[item]
	}
	return sum, nil
}

func pack(ctx task.ActivityContext) (any, error) {
	var item string
	if err := ctx.GetInput(&item); err != nil {
		return nil, err
	}
	return "boxed " + item, nil
}

func label(ctx task.ActivityContext) (any, error) {
	var boxes []string
	if err := ctx.GetInput(&boxes); err != nil {
		return nil, err
	}
	return "parcel of " + strings.Join(boxes, ", "), nil
}

// ---- orchestrations: they say what comes next, and are replayed from their history ----

func order(ctx *task.OrchestrationContext) (any, error) {
	var want wanted
	if err := ctx.GetInput(&want); err != nil {
		return nil, err
	}
	// A chain: each activity gets what the one before has given.
	var items []string
	if err := ctx.CallActivity("checkStock", task.WithActivityInput(want.Items)).Await(&items); err != nil {
		return nil, err
	}
	var total int
	if err := ctx.CallActivity("addUp", task.WithActivityInput(items)).Await(&total); err != nil {
		return nil, err
	}
	// Fan-out and fan-in: all at once, and then all results.
	var packing []task.Task
	for _, item := range items {
		packing = append(packing, ctx.CallActivity("pack", task.WithActivityInput(item)))
	}
	boxes := make([]string, len(packing))
	for i, t := range packing {
		if err := t.Await(&boxes[i]); err != nil {
			return nil, err
		}
	}
	// A durable timer: it rings also if the server was down in between.
	if err := ctx.CreateTimer(time.Duration(want.Seconds) * time.Second).Await(nil); err != nil {
		return nil, err
	}
	// An event from outside. It may have come long before: the server keeps it.
	var paid payment
	if err := ctx.WaitForSingleEvent("payment", -1).Await(&paid); err != nil {
		return nil, err
	}
	// A sub-orchestration.
	var parcel string
	if err := ctx.CallSubOrchestrator("ship", task.WithSubOrchestratorInput(boxes)).Await(&parcel); err != nil {
		return nil, err
	}
	return fmt.Sprintf("%s paid %d for a %s", paid.By, total, parcel), nil
}

func ship(ctx *task.OrchestrationContext) (any, error) {
	var boxes []string
	if err := ctx.GetInput(&boxes); err != nil {
		return nil, err
	}
	var parcel string
	err := ctx.CallActivity("label", task.WithActivityInput(boxes)).Await(&parcel)
	return parcel, err
}

// ---- the client ----

func run(address string, seconds int) error {
	ctx := context.Background()
	conn, err := grpc.Dial(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer conn.Close()

	registry := task.NewTaskRegistry()
	for name, f := range map[string]task.Orchestrator{"order": order, "ship": ship} {
		if err := registry.AddOrchestratorN(name, f); err != nil {
			return err
		}
	}
	for name, f := range map[string]task.Activity{
		"checkStock": checkStock, "addUp": addUp, "pack": pack, "label": label,
	} {
		if err := registry.AddActivityN(name, f); err != nil {
			return err
		}
	}
	c := client.NewTaskHubGrpcClient(conn, backend.DefaultLogger())
	if err := c.StartWorkItemListener(ctx, registry); err != nil {
		return err
	}

	want := wanted{Items: []string{"tea", "unicorn", "cup", "spoon"}, Seconds: seconds}
	id, err := c.ScheduleNewOrchestration(ctx, "order", api.WithInput(want))
	if err != nil {
		return err
	}
	fmt.Printf("%s started\n", id)
	if err := c.RaiseEvent(ctx, id, "payment", api.WithEventPayload(payment{By: "Ada"})); err != nil {
		return err
	}

	// It goes on waiting by itself when the server is restarted meanwhile.
	state, err := c.WaitForOrchestrationCompletion(ctx, id, api.WithFetchPayloads(true))
	if err != nil {
		return err
	}
	status := strings.TrimPrefix(state.RuntimeStatus.String(), "ORCHESTRATION_STATUS_")
	if state.RuntimeStatus != api.RUNTIME_STATUS_COMPLETED {
		return fmt.Errorf("%s %s: %v", id, status, state.FailureDetails)
	}
	result, err := strconv.Unquote(state.SerializedOutput)
	fmt.Printf("%s %s: %s\n", id, status, result)
	return err
}

func main() {
	address, seconds := "localhost:4001", 2
	if a := os.Getenv("PERDURE_SERVER"); a != "" {
		address = a
	}
	if len(os.Args) > 1 {
		var err error
		if seconds, err = strconv.Atoi(os.Args[1]); err != nil {
			log.Fatal(err)
		}
	}
	if err := run(address, seconds); err != nil {
		log.Fatal(err)
	}
}
