// The Go workload of the crash test; tests/crash/workload.py tells what it does.
//
//	crash ADDRESS HUB INSTANCES_AT_ONCE
//	crash replay      {"id", "past": [base64], "new": [base64]} a line in, a response in base64 a line out
package main

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/microsoft/durabletask-go/api"
	"github.com/microsoft/durabletask-go/backend"
	"github.com/microsoft/durabletask-go/client"
	"github.com/microsoft/durabletask-go/task"
	"google.golang.org/grpc"
	grpcbackoff "google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

const events = 8

var kinds = []string{"chain", "fan", "timers", "events", "children", "loop", "carry"}

type state struct {
	N     int      `json:"n"`
	Round int      `json:"round"`
	Got   []string `json:"got"`
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func activity(ctx *task.OrchestrationContext, name string, n int) (int, error) {
	var got int
	err := ctx.CallActivity(name, task.WithActivityInput(n)).Await(&got)
	return got, err
}

func sum(tasks []task.Task) (int, error) {
	total := 0
	for _, t := range tasks {
		var got int
		if err := t.Await(&got); err != nil {
			return 0, err
		}
		total += got
	}
	return total, nil
}

func chain(ctx *task.OrchestrationContext) (any, error) {
	var n int
	must(ctx.GetInput(&n))
	for i := 0; i < 5; i++ {
		var err error
		if n, err = activity(ctx, "inc", n); err != nil {
			return nil, err
		}
	}
	return n, nil
}

func fan(ctx *task.OrchestrationContext) (any, error) {
	var n int
	must(ctx.GetInput(&n))
	var tasks []task.Task
	for i := 0; i < 100; i++ {
		tasks = append(tasks, ctx.CallActivity("square", task.WithActivityInput(n+i)))
	}
	return sum(tasks)
}

func timers(ctx *task.OrchestrationContext) (any, error) {
	var n int
	must(ctx.GetInput(&n))
	if err := ctx.CreateTimer(50 * time.Millisecond).Await(nil); err != nil {
		return nil, err
	}
	n, err := activity(ctx, "inc", n)
	if err != nil {
		return nil, err
	}
	var tasks []task.Task
	for i := 1; i < 6; i++ {
		tasks = append(tasks, ctx.CreateTimer(time.Duration(100*i)*time.Millisecond))
	}
	if _, err := sum(tasks); err != nil {
		return nil, err
	}
	return activity(ctx, "inc", n)
}

func collect(ctx *task.OrchestrationContext) (any, error) {
	var got []string
	for {
		var data string
		if err := ctx.WaitForSingleEvent("e", -1).Await(&data); err != nil {
			return nil, err
		}
		got = append(got, data)
		if strings.HasPrefix(data, "end") {
			return got, nil
		}
	}
}

func children(ctx *task.OrchestrationContext) (any, error) {
	var n int
	must(ctx.GetInput(&n))
	var tasks []task.Task
	for i := 0; i < 5; i++ {
		tasks = append(tasks, ctx.CallSubOrchestrator("chain", task.WithSubOrchestratorInput(n+i)))
	}
	total, err := sum(tasks)
	if err != nil {
		return nil, err
	}
	var last int
	err = ctx.CallSubOrchestrator("timers", task.WithSubOrchestratorInput(n)).Await(&last)
	return total + last, err
}

func loop(ctx *task.OrchestrationContext) (any, error) {
	var x state
	must(ctx.GetInput(&x))
	n, err := activity(ctx, "inc", x.N)
	if err != nil {
		return nil, err
	}
	if x.Round < 9 {
		ctx.ContinueAsNew(state{N: n, Round: x.Round + 1})
		return nil, nil
	}
	return n, nil
}

func carry(ctx *task.OrchestrationContext) (any, error) {
	var x state
	must(ctx.GetInput(&x))
	var data string
	if err := ctx.WaitForSingleEvent("e", -1).Await(&data); err != nil {
		return nil, err
	}
	x.Got = append(x.Got, data)
	if strings.HasPrefix(data, "end") {
		return x.Got, nil
	}
	ctx.ContinueAsNew(x, task.WithKeepUnprocessedEvents())
	return nil, nil
}

func registry() *task.TaskRegistry {
	r := task.NewTaskRegistry()
	for name, f := range map[string]task.Orchestrator{
		"chain": chain, "fan": fan, "timers": timers, "events": collect, "children": children,
		"loop": loop, "carry": carry,
	} {
		must(r.AddOrchestratorN(name, f))
	}
	number := func(f func(int) int) task.Activity {
		return func(ctx task.ActivityContext) (any, error) {
			var n int
			if err := ctx.GetInput(&n); err != nil {
				return nil, err
			}
			return f(n), nil
		}
	}
	must(r.AddActivityN("inc", number(func(n int) int { return n + 1 })))
	must(r.AddActivityN("square", number(func(n int) int { return n * n })))
	return r
}

func firstInput(kind string, n int) any {
	if kind == "loop" || kind == "carry" {
		return state{N: n, Got: []string{}}
	}
	return n
}

var out sync.Mutex

func say(what map[string]any) {
	line, err := json.Marshal(what)
	must(err)
	out.Lock()
	defer out.Unlock()
	fmt.Println(string(line))
}

// The status code below what the SDK wraps around an error.
func code(err error) codes.Code {
	for e := err; e != nil; {
		if s, ok := status.FromError(e); ok {
			return s.Code()
		}
		u, ok := e.(interface{ Unwrap() error })
		if !ok {
			break
		}
		e = u.Unwrap()
	}
	return codes.Unknown
}

// Until it is answered; gives how often that took.
func repeat(call func(tries int) error, doneBy codes.Code) int {
	for tries := 0; ; tries++ {
		err := call(tries)
		if err == nil || code(err) == doneBy {
			return tries
		}
		if c := code(err); c != codes.Unavailable && c != codes.Canceled {
			say(map[string]any{"error": err.Error()})
			os.Exit(1)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

type quiet struct{}

func (quiet) Debug(v ...any)            {}
func (quiet) Debugf(f string, v ...any) {}
func (quiet) Info(v ...any)             {}
func (quiet) Infof(f string, v ...any)  {}
func (quiet) Warn(v ...any)             {}
func (quiet) Warnf(f string, v ...any)  {}
func (quiet) Error(v ...any)            {}
func (quiet) Errorf(f string, v ...any) {}

func dial(address string) *grpc.ClientConn {
	conn, err := grpc.Dial(address, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithConnectParams(grpc.ConnectParams{MinConnectTimeout: time.Second, Backoff: grpcbackoff.Config{
			BaseDelay: 50 * time.Millisecond, Multiplier: 1.5, MaxDelay: 200 * time.Millisecond}}))
	must(err)
	return conn
}

func run(address, hub string, atOnce int) {
	ctx := metadata.AppendToOutgoingContext(context.Background(), "taskhub", hub)
	c := client.NewTaskHubGrpcClient(dial(address), quiet{})
	must(c.StartWorkItemListener(ctx, registry()))
	var number atomic.Int64
	var stopping atomic.Bool

	one := func() {
		n := int(number.Add(1) - 1)
		kind := kinds[n%len(kinds)]
		id := api.InstanceID(fmt.Sprintf("%s-%s-%d", hub, kind, n))
		repeat(func(int) error {
			_, err := c.ScheduleNewOrchestration(ctx, kind, api.WithInstanceID(id), api.WithInput(firstInput(kind, n)))
			return err
		}, codes.AlreadyExists)
		say(map[string]any{"start": id, "kind": kind, "n": n})
		if kind == "events" || kind == "carry" {
			for i := 0; i <= events; i++ {
				name := strconv.Itoa(i)
				if i == events {
					name = "end"
				}
				tries := repeat(func(t int) error {
					return c.RaiseEvent(ctx, id, "e", api.WithEventPayload(fmt.Sprintf("%s.%d", name, t)))
				}, codes.OK)
				say(map[string]any{"event": id, "data": fmt.Sprintf("%s.%d", name, tries)})
			}
		}
		_, err := c.WaitForOrchestrationCompletion(ctx, id) // tries again by itself
		must(err)
	}

	var lanes sync.WaitGroup
	for i := 0; i < atOnce; i++ {
		lanes.Add(1)
		go func() {
			defer lanes.Done()
			for !stopping.Load() {
				one()
			}
		}()
	}
	_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
	stopping.Store(true)
	lanes.Wait()
	say(map[string]any{"done": number.Load()})
}

func replay() {
	executor := task.NewTaskExecutor(registry())
	lines := bufio.NewReaderSize(os.Stdin, 1<<20)
	decode := func(list []string) []*backend.HistoryEvent {
		var got []*backend.HistoryEvent
		for _, text := range list {
			raw, err := base64.StdEncoding.DecodeString(text)
			must(err)
			e := &backend.HistoryEvent{}
			must(proto.Unmarshal(raw, e))
			got = append(got, e)
		}
		return got
	}
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		var item struct {
			ID        string   `json:"id"`
			Past, New []string `json:",omitempty"`
		}
		must(json.Unmarshal(line, &item))
		result, err := executor.ExecuteOrchestrator(context.Background(), api.InstanceID(item.ID),
			decode(item.Past), decode(item.New))
		must(err)
		raw, err := proto.Marshal(result.Response)
		must(err)
		fmt.Println(base64.StdEncoding.EncodeToString(raw))
	}
}

func main() {
	if os.Args[1] == "replay" {
		replay()
		return
	}
	atOnce, err := strconv.Atoi(os.Args[3])
	must(err)
	run(os.Args[1], os.Args[2], atOnce)
}
