// The released Go SDK against a server: sdk [GROUP]...
//
// The server's address comes in PERDURE_SERVER, the task hub in PERDURE_HUB (none: no header is sent).
// Prints `PASS group.test` or `FAIL group.test: why`, a line each. Exit status 1 when one failed.
//
// This SDK echoes no completion tokens, counts actions from 0 and sends them in any order.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/microsoft/durabletask-go/api"
	"github.com/microsoft/durabletask-go/client"
	"github.com/microsoft/durabletask-go/task"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
)

var (
	c      *client.TaskHubGrpcClient
	ctx    = context.Background()
	number atomic.Int64
	ran    sync.Map // key -> *atomic.Int64
	gates  sync.Map // key -> chan struct{}
)

type quiet struct{}

func (quiet) Debug(v ...any)            {}
func (quiet) Debugf(f string, v ...any) {}
func (quiet) Info(v ...any)             {}
func (quiet) Infof(f string, v ...any)  {}
func (quiet) Warn(v ...any)             {}
func (quiet) Warnf(f string, v ...any)  {}
func (quiet) Error(v ...any)            {}
func (quiet) Errorf(f string, v ...any) {}

// ---- helpers of tests: they end the test by a panic ----

func check(good bool, format string, args ...any) {
	if !good {
		panic(fmt.Sprintf(format, args...))
	}
}

func ok(err error) {
	check(err == nil, "%v", err)
}

func newID() api.InstanceID {
	return api.InstanceID(fmt.Sprintf("go-%d-%d", os.Getpid(), number.Add(1)))
}

func start(name string, input any, more ...api.NewOrchestrationOptions) api.InstanceID {
	id, err := c.ScheduleNewOrchestration(ctx, name, append([]api.NewOrchestrationOptions{
		api.WithInstanceID(newID()), api.WithInput(input)}, more...)...)
	ok(err)
	return id
}

func finish(id api.InstanceID) *api.OrchestrationMetadata {
	limited, cancel := context.WithTimeout(ctx, 45*time.Second)
	defer cancel()
	state, err := c.WaitForOrchestrationCompletion(limited, id)
	ok(err)
	return state
}

func get(id api.InstanceID) *api.OrchestrationMetadata {
	state, err := c.FetchOrchestrationMetadata(ctx, id)
	ok(err)
	return state
}

func eventually(what string, condition func() bool) {
	for end := time.Now().Add(20 * time.Second); !condition(); time.Sleep(20 * time.Millisecond) {
		check(time.Now().Before(end), "did not happen: %s", what)
	}
}

func until(id api.InstanceID, status api.OrchestrationStatus) {
	eventually(string(id)+" is "+status.String(), func() bool {
		state, err := c.FetchOrchestrationMetadata(ctx, id)
		return err == nil && state.RuntimeStatus == status
	})
}

func gives(id api.InstanceID, want any) {
	state := finish(id)
	check(state.RuntimeStatus == api.RUNTIME_STATUS_COMPLETED, "%s is %v", id, state.RuntimeStatus)
	text, _ := json.Marshal(want)
	var got, wanted any
	ok(json.Unmarshal([]byte(state.SerializedOutput), &got))
	ok(json.Unmarshal(text, &wanted))
	check(reflect.DeepEqual(got, wanted), "%s gives %s, not %s", id, state.SerializedOutput, text)
}

func raise(id api.InstanceID, name string, data any) {
	ok(c.RaiseEvent(ctx, id, name, api.WithEventPayload(data)))
}

func counter(key string) *atomic.Int64 {
	n, _ := ran.LoadOrStore(key, new(atomic.Int64))
	return n.(*atomic.Int64)
}

func gate(key string) chan struct{} {
	g, _ := gates.LoadOrStore(key, make(chan struct{}))
	return g.(chan struct{})
}

func input[T any](x interface{ GetInput(any) error }) (v T) {
	if err := x.GetInput(&v); err != nil {
		panic(err)
	}
	return v
}

func await[T any](t task.Task) (v T, err error) {
	err = t.Await(&v)
	return v, err
}

func sum(tasks []task.Task) (any, error) {
	total := 0
	for _, t := range tasks {
		n, err := await[int](t)
		if err != nil {
			return nil, err
		}
		total += n
	}
	return total, nil
}

// ---- programs ----

var activities = map[string]task.Activity{
	"inc":    func(ctx task.ActivityContext) (any, error) { return input[int](ctx) + 1, nil },
	"square": func(ctx task.ActivityContext) (any, error) { n := input[int](ctx); return n * n, nil },
	"echo":   func(ctx task.ActivityContext) (any, error) { return input[any](ctx), nil },
	"fails":  func(ctx task.ActivityContext) (any, error) { return nil, errors.New("no luck") },
	"flaky": func(ctx task.ActivityContext) (any, error) {
		n := counter(input[string](ctx)).Add(1)
		if n < 3 {
			return nil, fmt.Errorf("try %d", n)
		}
		return n, nil
	},
	"held": func(ctx task.ActivityContext) (any, error) {
		key := input[string](ctx)
		counter(key).Add(1)
		<-gate(key)
		return key, nil
	},
}

func retry() *task.RetryPolicy {
	return &task.RetryPolicy{MaxAttempts: 5, InitialRetryInterval: 20 * time.Millisecond}
}

var orchestrators = map[string]task.Orchestrator{
	"echoes":       func(ctx *task.OrchestrationContext) (any, error) { return input[any](ctx), nil },
	"fails_itself": func(ctx *task.OrchestrationContext) (any, error) { return nil, errors.New("that was it") },
	"chain": func(ctx *task.OrchestrationContext) (any, error) {
		n := input[int](ctx)
		var err error
		for i := 0; i < 5 && err == nil; i++ {
			n, err = await[int](ctx.CallActivity("inc", task.WithActivityInput(n)))
		}
		return n, err
	},
	"fan": func(ctx *task.OrchestrationContext) (any, error) {
		var tasks []task.Task
		for i := 0; i < input[int](ctx); i++ {
			tasks = append(tasks, ctx.CallActivity("square", task.WithActivityInput(i)))
		}
		return sum(tasks)
	},
	"example": func(ctx *task.OrchestrationContext) (any, error) {
		a, err := await[string](ctx.CallActivity("echo", task.WithActivityInput(input[string](ctx))))
		if err == nil {
			err = ctx.CreateTimer(20 * time.Millisecond).Await(nil)
		}
		if err != nil {
			return nil, err
		}
		return await[string](ctx.CallSubOrchestrator("echoes", task.WithSubOrchestratorInput(a)))
	},
	"status": func(ctx *task.OrchestrationContext) (any, error) {
		ctx.SetCustomStatus("one")
		if err := ctx.WaitForSingleEvent("go", -1).Await(nil); err != nil {
			return nil, err
		}
		ctx.SetCustomStatus("two")
		return 1, nil
	},
	"catches": func(ctx *task.OrchestrationContext) (any, error) {
		var t task.Task
		if name := input[string](ctx); name == "child" {
			t = ctx.CallSubOrchestrator("fails_itself")
		} else {
			t = ctx.CallActivity(name)
		}
		if err := t.Await(nil); err != nil {
			return err.Error(), nil
		}
		return "no failure", nil
	},
	"retries": func(ctx *task.OrchestrationContext) (any, error) {
		return await[int](ctx.CallActivity("flaky", task.WithActivityInput(input[string](ctx)), task.WithActivityRetryPolicy(retry())))
	},
	"retries_child": func(ctx *task.OrchestrationContext) (any, error) {
		key := input[string](ctx)
		return await[int](ctx.CallSubOrchestrator("flaky_child", task.WithSubOrchestratorInput(key),
			task.WithSubOrchestrationInstanceID(key), task.WithSubOrchestrationRetryPolicy(retry())))
	},
	"flaky_child": func(ctx *task.OrchestrationContext) (any, error) {
		return await[int](ctx.CallActivity("flaky", task.WithActivityInput(input[string](ctx))))
	},
	"hold": func(ctx *task.OrchestrationContext) (any, error) {
		return await[string](ctx.CallActivity("held", task.WithActivityInput(input[string](ctx))))
	},
	"sleeps": func(ctx *task.OrchestrationContext) (any, error) {
		at := ctx.CurrentTimeUtc.Add(time.Duration(input[int](ctx)) * time.Millisecond)
		if err := ctx.CreateTimer(at.Sub(ctx.CurrentTimeUtc)).Await(nil); err != nil {
			return nil, err
		}
		return ctx.CurrentTimeUtc.Sub(at).Nanoseconds(), nil
	},
	"naps": func(ctx *task.OrchestrationContext) (any, error) {
		var tasks []task.Task
		for i := 1; i <= 50; i++ {
			tasks = append(tasks, ctx.CreateTimer(time.Duration(10*i)*time.Millisecond))
		}
		_, err := sum(tasks)
		return "awake", err
	},
	"times_out": func(ctx *task.OrchestrationContext) (any, error) {
		err := ctx.WaitForSingleEvent("go", 200*time.Millisecond).Await(nil)
		return errors.Is(err, task.ErrTaskCanceled), nil
	},
	"parent": func(ctx *task.OrchestrationContext) (any, error) {
		return await[[]string](ctx.CallSubOrchestrator("tells", task.WithSubOrchestratorInput("x")))
	},
	"tells": func(ctx *task.OrchestrationContext) (any, error) {
		return []string{input[string](ctx), string(ctx.ID)}, nil
	},
	"wide": func(ctx *task.OrchestrationContext) (any, error) {
		var tasks []task.Task
		for i := 0; i < input[int](ctx); i++ {
			tasks = append(tasks, ctx.CallSubOrchestrator("echoes", task.WithSubOrchestratorInput(i)))
		}
		return sum(tasks)
	},
	"waits": func(ctx *task.OrchestrationContext) (any, error) {
		return await[any](ctx.WaitForSingleEvent("go", -1))
	},
	"parent_of_waits": func(ctx *task.OrchestrationContext) (any, error) {
		err := ctx.CallSubOrchestrator("waits", task.WithSubOrchestrationInstanceID(input[string](ctx))).Await(nil)
		if err != nil {
			return err.Error(), nil
		}
		return "fine", nil
	},
	"collects": func(ctx *task.OrchestrationContext) (any, error) {
		got := []int{}
		for i := 0; i < input[int](ctx); i++ {
			n, err := await[int](ctx.WaitForSingleEvent("e", -1))
			if err != nil {
				return nil, err
			}
			got = append(got, n)
		}
		return got, nil
	},
	"loop": func(ctx *task.OrchestrationContext) (any, error) {
		n := input[int](ctx)
		if err := ctx.CallActivity("echo", task.WithActivityInput(n)).Await(nil); err != nil {
			return nil, err
		}
		if n < 10 {
			ctx.ContinueAsNew(n + 1)
		}
		return n, nil
	},
	"carry": func(ctx *task.OrchestrationContext) (any, error) {
		got := input[[]int](ctx)
		n, err := await[int](ctx.WaitForSingleEvent("e", -1))
		if err != nil {
			return nil, err
		}
		if got = append(got, n); len(got) < 100 {
			ctx.ContinueAsNew(got, task.WithKeepUnprocessedEvents())
		}
		return got, nil
	},
	"eternal": func(ctx *task.OrchestrationContext) (any, error) {
		if err := ctx.CreateTimer(5 * time.Millisecond).Await(nil); err != nil {
			return nil, err
		}
		ctx.ContinueAsNew(input[int](ctx) + 1)
		return nil, nil
	},
}

func upTo(n int) []int {
	list := []int{}
	for i := 0; i < n; i++ {
		list = append(list, i)
	}
	return list
}

// ---- tests ----

var tests = []struct {
	name string
	body func()
}{
	// checklist: 139, 62, 24
	{"start.hello", func() {
		gives(start("echoes", map[string]any{"a": []any{1, "ü"}}), map[string]any{"a": []any{1, "ü"}})
	}},
	// checklist: 14
	{"start.at", func() {
		at := time.Now().Add(1500 * time.Millisecond)
		id := start("echoes", 1, api.WithStartTime(at))
		check(get(id).RuntimeStatus == api.RUNTIME_STATUS_PENDING, "not pending")
		gives(id, 1)
		check(!time.Now().Before(at), "early")
	}},
	// checklist: 15; reports: BL-069
	{"start.reuse", func() {
		id := start("echoes", 1)
		gives(id, 1)
		start("waits", nil, api.WithInstanceID(id))
		until(id, api.RUNTIME_STATUS_RUNNING)
		_, err := c.ScheduleNewOrchestration(ctx, "echoes", api.WithInstanceID(id))
		check(err != nil && strings.Contains(err.Error(), "already exists"), "%v", err)
		raise(id, "go", 2)
		gives(id, 2)
	}},
	// The reuse policy of this SDK's older protocol. checklist: 20; reports: BL-070
	{"start.old_policy", func() {
		running := []api.OrchestrationStatus{api.RUNTIME_STATUS_RUNNING, api.RUNTIME_STATUS_COMPLETED, api.RUNTIME_STATUS_PENDING}
		id := start("waits", nil)
		until(id, api.RUNTIME_STATUS_RUNNING)
		again := func(action api.CreateOrchestrationAction) error {
			_, err := c.ScheduleNewOrchestration(ctx, "waits", api.WithInstanceID(id), api.WithInput("new"),
				api.WithOrchestrationIdReusePolicy(&api.OrchestrationIdReusePolicy{Action: action, OperationStatus: running}))
			return err
		}
		created := get(id).CreatedAt
		ok(again(api.REUSE_ID_ACTION_IGNORE))
		check(get(id).CreatedAt.Equal(created) && get(id).SerializedInput != `"new"`, "IGNORE replaced it")
		ok(again(api.REUSE_ID_ACTION_TERMINATE))
		check(get(id).SerializedInput == `"new"`, "TERMINATE kept it")
		until(id, api.RUNTIME_STATUS_RUNNING)
		raise(id, "go", "second")
		gives(id, "second")
	}},
	// checklist: 22
	{"start.unknown_and_purged", func() {
		_, err := c.FetchOrchestrationMetadata(ctx, "nobody")
		check(errors.Is(err, api.ErrInstanceNotFound), "%v", err)
		id := start("echoes", 1)
		gives(id, 1)
		ok(c.PurgeOrchestrationState(ctx, id))
		err = c.PurgeOrchestrationState(ctx, id)
		check(errors.Is(err, api.ErrInstanceNotFound), "%v", err)
	}},
	// Actions and timers of id 0 are as good as others. checklist: 139, 144, 145
	{"turns.example", func() { gives(start("example", "x"), "x") }},
	// checklist: 39
	{"turns.custom_status", func() {
		id := start("status", nil)
		eventually("a custom status", func() bool { return get(id).SerializedCustomStatus == "one" })
		raise(id, "go", nil)
		check(finish(id).SerializedCustomStatus == "two", "the last one is not kept")
	}},
	{"turns.failure", func() {
		check(finish(start("fails_itself", nil)).RuntimeStatus == api.RUNTIME_STATUS_FAILED, "not failed")
	}},
	// checklist: 139
	{"turns.many_at_once", func() {
		var ids []api.InstanceID
		for n := 0; n < 100; n++ {
			ids = append(ids, start("chain", n*10))
		}
		for n, id := range ids {
			gives(id, n*10+5)
		}
	}},
	// checklist: 62, 144
	{"activities.chain", func() { gives(start("chain", 1), 6) }},
	// reports: BL-096, BL-179
	{"activities.fan_out", func() {
		gives(start("fan", 100), 328350)
		gives(start("fan", 1000), 332833500)
	}},
	{"activities.failure", func() {
		out := finish(start("catches", "fails")).SerializedOutput
		check(strings.Contains(out, "no luck"), "%s", out)
	}},
	{"activities.retries", func() { gives(start("retries", newID()), 3) }},
	// checklist: 61
	{"activities.while_suspended", func() {
		key := string(newID())
		id := start("hold", key)
		eventually("the activity runs", func() bool { return counter(key).Load() == 1 })
		ok(c.SuspendOrchestration(ctx, id, "a reason"))
		close(gate(key))
		time.Sleep(300 * time.Millisecond) // time for what must not happen
		check(get(id).RuntimeStatus == api.RUNTIME_STATUS_SUSPENDED, "%v", get(id).RuntimeStatus)
		ok(c.ResumeOrchestration(ctx, id, ""))
		gives(id, key)
		check(counter(key).Load() == 1, "ran %d times", counter(key).Load())
	}},
	// checklist: 63, 64
	{"timers.short", func() {
		for _, ms := range []int{0, -1000, 1, 300} {
			var late time.Duration
			ok(json.Unmarshal([]byte(finish(start("sleeps", ms)).SerializedOutput), &late))
			check(late > 0 && late < 5*time.Second, "%v late", late)
		}
	}},
	// reports: BL-040
	{"timers.many", func() { gives(start("naps", nil), "awake") }},
	{"timers.against_event", func() { gives(start("times_out", nil), true) }},
	// An empty id is made by the server. checklist: 71
	{"children.minted_id", func() {
		var got []string
		ok(json.Unmarshal([]byte(finish(start("parent", nil)).SerializedOutput), &got))
		execution, index, found := strings.Cut(got[1], ":")
		check(got[0] == "x" && found && len(execution) == 32 && index == "0000", "%v", got)
		check(get(api.InstanceID(got[1])).RuntimeStatus == api.RUNTIME_STATUS_COMPLETED, "the child is not there")
	}},
	// checklist: 74
	{"children.fan_out", func() { gives(start("wide", 200), 19900) }},
	// checklist: 68
	{"children.failure", func() {
		out := finish(start("catches", "child")).SerializedOutput
		check(strings.Contains(out, "that was it"), "%s", out)
	}},
	// checklist: 70
	{"children.retries", func() { gives(start("retries_child", newID()), 3) }},
	// checklist: 69
	{"children.terminated", func() {
		child := newID()
		id := start("parent_of_waits", child)
		until(child, api.RUNTIME_STATUS_RUNNING)
		ok(c.TerminateOrchestration(ctx, child, api.WithOutput("why")))
		out := finish(id).SerializedOutput
		check(strings.Contains(out, fmt.Sprintf("Sub-orchestration instance '%s' was terminated.", child)), "%s", out)
	}},
	// checklist: 75
	{"events.in_order", func() {
		id := start("collects", 100)
		for n := 0; n < 100; n++ {
			raise(id, "e", n)
		}
		gives(id, upTo(100))
		raise(id, "e", 101)
		check(c.RaiseEvent(ctx, "nobody", "e") != nil, "an unknown instance took an event")
	}},
	// checklist: 79, 153
	{"suspend.and_resume", func() {
		id := start("collects", 3)
		until(id, api.RUNTIME_STATUS_RUNNING)
		ok(c.SuspendOrchestration(ctx, id, ""))
		check(get(id).RuntimeStatus == api.RUNTIME_STATUS_SUSPENDED, "not at once")
		for n := 0; n < 3; n++ {
			raise(id, "e", n)
		}
		ok(c.ResumeOrchestration(ctx, id, "why"))
		gives(id, upTo(3))
	}},
	// checklist: 82, 87
	{"terminate.running_and_suspended", func() {
		for _, suspended := range []bool{false, true} {
			id := start("waits", nil)
			until(id, api.RUNTIME_STATUS_RUNNING)
			if suspended {
				ok(c.SuspendOrchestration(ctx, id, ""))
			}
			ok(c.TerminateOrchestration(ctx, id, api.WithOutput("enough")))
			state := finish(id)
			check(state.RuntimeStatus == api.RUNTIME_STATUS_TERMINATED && state.SerializedOutput == `"enough"`,
				"%v %s", state.RuntimeStatus, state.SerializedOutput)
			ok(c.TerminateOrchestration(ctx, id))
		}
		ok(c.TerminateOrchestration(ctx, "nobody"))
	}},
	// checklist: 86; reports: BL-055
	{"terminate.recursive", func() {
		child := newID()
		id := start("parent_of_waits", child)
		until(child, api.RUNTIME_STATUS_RUNNING)
		ok(c.TerminateOrchestration(ctx, id, api.WithRecursiveTerminate(true)))
		check(finish(id).RuntimeStatus == api.RUNTIME_STATUS_TERMINATED, "the parent goes on")
		check(finish(child).RuntimeStatus == api.RUNTIME_STATUS_TERMINATED, "the child goes on")
	}},
	// checklist: 85; reports: BL-054
	{"terminate.eternal", func() {
		id := start("eternal", 0)
		eventually("generations", func() bool { return len(get(id).SerializedInput) > 1 })
		ok(c.TerminateOrchestration(ctx, id, api.WithOutput("stop")))
		check(finish(id).RuntimeStatus == api.RUNTIME_STATUS_TERMINATED, "it goes on")
	}},
	// checklist: 89
	{"continue-as-new.loop", func() {
		id := start("loop", 0)
		gives(id, 10)
		check(get(id).SerializedInput == "10", "%s", get(id).SerializedInput)
	}},
	// checklist: 78; reports: BL-031
	{"continue-as-new.keeps_events", func() {
		id := start("carry", []int{})
		for n := 0; n < 100; n++ {
			raise(id, "e", n)
		}
		gives(id, upTo(100))
	}},
}

func one(name string, body func()) (why any) {
	defer func() { why = recover() }()
	body()
	return nil
}

func main() {
	address := os.Getenv("PERDURE_SERVER")
	if address == "" {
		address = "localhost:4001"
	}
	if hub := os.Getenv("PERDURE_HUB"); hub != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "taskhub", hub)
	}
	conn, err := grpc.Dial(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	ok(err)
	c = client.NewTaskHubGrpcClient(conn, quiet{})
	registry := task.NewTaskRegistry()
	for name, f := range orchestrators {
		ok(registry.AddOrchestratorN(name, f))
	}
	for name, f := range activities {
		ok(registry.AddActivityN(name, f))
	}
	ok(c.StartWorkItemListener(ctx, registry))

	var failed atomic.Int64
	var running sync.WaitGroup
	for _, t := range tests {
		chosen := len(os.Args) == 1
		for _, group := range os.Args[1:] {
			chosen = chosen || strings.HasPrefix(t.name, group)
		}
		if !chosen {
			continue
		}
		running.Add(1)
		go func() {
			defer running.Done()
			if why := one(t.name, t.body); why != nil {
				failed.Add(1)
				fmt.Printf("FAIL %s: %s\n", t.name, strings.ReplaceAll(fmt.Sprint(why), "\n", " | "))
				return
			}
			fmt.Printf("PASS %s\n", t.name)
		}()
	}
	running.Wait()
	if failed.Load() > 0 {
		os.Exit(1)
	}
}
