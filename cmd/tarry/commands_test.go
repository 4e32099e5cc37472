package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/tarry-mq/tarry/bridge/api"
	"github.com/tarry-mq/tarry/bridge/ops"
	"github.com/tarry-mq/tarry/deploy/lab"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

// scripted answers by the id it is asked for, or pushed under.
type scripted struct{}

func (scripted) Pull(_ context.Context, p scheduler.Poll) ([]scheduler.PulledMessage, error) {
	switch p.Topic {
	case "down":
		return nil, scheduler.ErrUnavailable
	case "nothing":
		return nil, nil
	}
	found := []scheduler.PulledMessage{{Nonce: 1}, {Nonce: 1}}
	for i := range found {
		m := info(scheduler.Ref{ID: "order-7131"}, message.StateInFlight).Message
		found[i].LeasedMessage = scheduler.LeasedMessage{Message: &m, Until: someDue + 30_000}
	}
	found[1].Message.ID, found[1].Message.Body, found[1].Message.Headers = "", []byte{0xff}, nil
	return found, nil
}

func (scripted) Release(_ context.Context, ref scheduler.Ref, _ string) (message.Info, error) {
	i := info(ref, message.StateWaiting)
	i.Held, i.Pull, i.Mark = &message.Holding{Consumer: "worker-1"}, true, message.Mark{Refusals: 2}
	switch ref.ID {
	case "nobody":
		return i, scheduler.ErrUnknownID
	case "waits":
		return i, scheduler.ErrNotLeased
	}
	return i, nil
}

func (scripted) LeasesOf(context.Context, string, string, int) ([]scheduler.LeaseInfo, string, error) {
	return nil, "", nil
}

func (scripted) LeaseOf(context.Context, scheduler.Ref) (scheduler.LeaseInfo, error) {
	return scheduler.LeaseInfo{}, scheduler.ErrNotLeased
}

func (scripted) SettleHeld(context.Context, scheduler.Ref, scheduler.Verb) (scheduler.Settled, error) {
	return scheduler.Settled{}, nil
}

func (scripted) Outlook(_ context.Context, q scheduler.OutlookQuery) (*scheduler.Outlook, error) {
	o := &scheduler.Outlook{Source: "store", Overdue: new(2), Steps: make([]scheduler.Fall, len(q.Times)-1)}
	for i := range o.Steps {
		o.Steps[i].From = q.Times[i]
	}
	busy := &o.Steps[min(1, len(o.Steps)-1)]
	busy.Count = 3
	if q.By == "" {
		return o, nil
	}
	o.Groups, busy.Groups, busy.Others = []string{"orders.remind"}, []int{2}, 1
	for i := range o.Steps {
		if o.Steps[i].Groups == nil {
			o.Steps[i].Groups = []int{0}
		}
	}
	busy.Behind = []scheduler.Behind{{Name: "orders.>", Left: 1, LateMS: 61_500}}
	o.Steps[2].Behind = []scheduler.Behind{{Name: "orders.>", Left: 30}}
	o.Sample = &scheduler.SampleSize{Read: 4096, Of: 5000}
	return o, nil
}

func (scripted) PullCounts(context.Context, []string, []time.Duration) ([]scheduler.PullCount, error) {
	return nil, nil
}

func (scripted) GiveBack(context.Context, []scheduler.PulledMessage) {}

func (scripted) Settle(_ context.Context, all []scheduler.Settlement) ([]scheduler.Settled, []error) {
	settled, errs := make([]scheduler.Settled, len(all)), make([]error, len(all))
	for i, s := range all {
		r := &settled[i]
		r.Code, r.Info = scheduler.SettleDone, message.Info{State: message.StateDelivered, Version: 2}
		switch {
		case s.Topic == "lost":
			r.Code, r.Info.EndedAt = scheduler.SettleLost, someDue
		case s.Topic == "unsure":
			errs[i] = scheduler.ErrOutcomeUnknown
		case s.Verb == scheduler.Nack:
			r.Info.State, r.Info.Due = message.StateWaiting, someDue
		case s.Verb == scheduler.Bury:
			r.Info.State = message.StateDead
		case s.Verb == scheduler.Extend:
			r.Info.State, r.Until = message.StateInFlight, someDue
		}
	}
	return settled, errs
}

const (
	someUID = message.UID("t-0123456789abcdef")
	someDue = message.Milli(1_896_076_800_000)
)

func (scripted) AcceptAll(_ context.Context, batch []*scheduler.Push) []scheduler.Accepted {
	results := make([]scheduler.Accepted, len(batch))
	for i, p := range batch {
		a := scheduler.Accepted{UID: someUID, ID: p.ID, Due: someDue, State: message.StateWaiting, Version: 1}
		if a.ID == "" {
			a.ID = string(someUID)
		}
		switch p.ID {
		case "again":
			a.Duplicate, a.State = true, message.StateDelivered
		case "canceled":
			a.State = message.StateCanceled
		case "merged":
			a.Merged, a.Version = true, 2
		case "taken":
			a.Err = fmt.Errorf("%w: the message %s with this id is delivered", scheduler.ErrDuplicateID, someUID)
		case "unknown":
			a.Err = scheduler.ErrOutcomeUnknown
		case "down":
			a.Err = scheduler.ErrUnavailable
		}
		results[i] = a
	}
	return results
}

func (scripted) Get(_ context.Context, ref scheduler.Ref) (message.Info, error) {
	i := info(ref, message.StateWaiting)
	switch ref.ID {
	case "nobody":
		return i, scheduler.ErrUnknownID
	case "twice":
		paid := info(ref, message.StateDelivered)
		paid.Topic, paid.Key = "payments.\x1b[31mx", ""
		return i, &scheduler.AmbiguousError{Candidates: []message.Info{i, paid}}
	case "plain":
		i.Headers, i.Body, i.Priority, i.TTL, i.Mark, i.Why = nil, nil, 0, 0, message.Mark{}, message.Why{}
	case "binary":
		i.Body, i.State, i.EndedAt, i.Reason = []byte{0xff, 0}, message.StateDead, someDue, "no \x1b[31mpermission"
	case "steering":
		i.Body = []byte("\x1b[2Jgone")
	}
	return i, nil
}

func (s scripted) Resolve(ctx context.Context, ref scheduler.Ref) (message.Info, error) {
	return s.Get(ctx, ref)
}

func (scripted) Cancel(_ context.Context, ref scheduler.Ref) (scheduler.CancelResult, error) {
	switch ref.ID {
	case "nobody":
		return scheduler.CancelResult{Code: scheduler.CancelUnknown}, nil
	case "flying":
		return scheduler.CancelResult{Code: scheduler.CancelInFlight, Info: info(ref, message.StateInFlight)}, nil
	case "maybe":
		return scheduler.CancelResult{Code: scheduler.CancelMaybe, Info: info(ref, message.StateCanceled)}, nil
	case "delivered":
		i := info(ref, message.StateDelivered)
		i.EndedAt = someDue
		return scheduler.CancelResult{Code: scheduler.CancelEnded, Info: i}, nil
	case "sent-back":
		i := info(ref, message.StateCanceled)
		i.Attempt = 3
		return scheduler.CancelResult{Code: scheduler.CancelDone, Info: i}, nil
	}
	return scheduler.CancelResult{Code: scheduler.CancelDone, Info: info(ref, message.StateCanceled)}, nil
}

func info(ref scheduler.Ref, state message.State) message.Info {
	return message.Info{
		Message: message.Message{
			UID: someUID, ID: ref.ID, Key: ref.Key, Topic: "orders.remind", Due: someDue, Priority: 7,
			TTL: 90e9, Attempt: 1,
			Headers: []message.Header{{Name: "X-Shop", Value: "7"}, {Name: "X-Shop", Value: "8"}},
			Body:    []byte("order 7131\nsecond line"),
			Mark: message.Mark{Uncertain: true, Refusals: 2, Lane: "ORDERS",
				Try: message.Try{At: someDue - 5000, Consumer: "worker-\x1b[31m1", How: "sent back: no \xfftill"}},
		},
		State: state, Version: 3, Why: message.Why{Word: message.WhyStream, By: "ORDERS", Next: someDue + 3000,
			Detail: "stream ORDERS is not accepting messages (it is full); next try in 3 s"},
	}
}

func TestCommands_SayWhatTheGoldenFilesHold(t *testing.T) {
	t.Parallel()
	for name, commands := range map[string][]string{
		"push": {
			"push orders.remind --delay 20m", "push orders.remind --delay 20m --id order-7131 --body hello",
			"push orders.remind --at 1896076800000 --id again",
			"push orders.remind --delay 20m --id canceled", "push orders.remind --delay 20m --id taken",
			"push orders.remind --delay 20m --id unknown",
			"push orders.remind --delay 20m --id down", "push orders.*.remind --delay 20m",
			"push orders.remind --delay soon",
			"push orders.remind --delay 20m --id merged --on-duplicate debounce --max-wait 1h",
			"push bills --delay 20m --deliver pull --lease 1m", "push bills --delay 20m --deliver post",
			"push orders.remind --delay 20m --id a --retry 0,2m,1h~20%",
			"push orders.remind --delay 20m --on-duplicate merge", "push orders.remind --delay 20m --max-wait 1h",
			"push orders.remind --delay 20m --retry often",
			"push orders.remind --delay 1s --at 1896076800000",
			"push orders.remind --delay 1s --header Nats-Rollup=all",
			"push orders.remind --delay 1s --priority 256",
		},
		"get": {
			"get order-7131", "get order-7131 --key customer-9", "get plain", "get binary", "get steering",
			"get nobody", "get twice", "get " + string(someUID),
			"why order-7131", "why --topic orders.remind --key k", "why nobody", "why twice", "why", "why --topic a.*",
		},
		"cancel": {
			"cancel order-7131", "cancel sent-back", "cancel flying", "cancel maybe", "cancel delivered",
			"cancel nobody", "cancel a --key ''",
			"cancel --topic orders.> --accepted-to 1h",
			"cancel --topic orders.> --due-from 2030-01-31T08:00:00Z --due-to 1896076800000", "cancel --all",
			"cancel --all --key customer-9 --dry-run",
			"cancel --topic busy.>", "cancel --all --topic failing", "cancel --all --topic down", "cancel --topic ''",
			"cancel --topic failing --dry-run", "cancel --key customer-9 --dry-run", "cancel --topic a.>.b",
			"cancel --due-to soon",
		},
		"reschedule": {
			"reschedule order-7131 --delay 20m",
			"reschedule order-7131 --key customer-9 --at 1896076800000 --priority 9",
			"reschedule " + string(someUID) + " --shift=-1h",
			"reschedule order-7131 --if-version 3 --body hello --header X-A=1",
			"reschedule order-7131 --if-version 2 --body ''", "reschedule flying --delay 1s",
			"reschedule maybe --delay 1s", "reschedule delivered --delay 1s", "reschedule nobody --delay 1s",
			"reschedule down --delay 1s", "reschedule order-7131",
			"reschedule order-7131 --delay 1s --shift 1s", "reschedule order-7131 --delay soon",
			"reschedule order-7131 --priority 256", "reschedule order-7131 --if-version 0 --delay 1s",
			"reschedule --topic orders.> --shift 30m", "reschedule --topic orders.> --shift 30m --dry-run",
			"reschedule --all --key customer-9 --delay 1h", "reschedule --topic busy.> --at 1896076800000",
			"reschedule --all --topic failing --delay 1h", "reschedule --all", "run order-7131",
			"run order-7131 --key customer-9 --if-version 2", "run flying", "run nobody",
		},
		"dead": {
			"dead list", "dead list --limit 2", "dead list --topic orders.> --all", "dead list --topic nothing",
			"dead groups", "dead groups --topic nothing", "dead groups --topic late",
			"dead list --topic ''", "dead list --limit 0", "dead list --cursor x",
			"dead requeue order-7131", "dead requeue order-7131 --delay 1h --body mended --header X-A=1",
			"dead requeue nobody", "dead requeue waits", "dead requeue down",
			"dead requeue lost",
			"dead requeue a b", "dead requeue a nobody", "dead requeue waits nobody a", "dead requeue a lost",
			"dead purge lost", "dead requeue --topic orders.> --delay 10m", "dead requeue --older 1h --dry-run",
			"dead requeue --all --topic failing", "dead requeue --topic failing --dry-run", "dead requeue --topic ''",
			"dead requeue --older old",
			"dead purge a", "dead purge a nobody down", "dead purge --older 30d",
			"dead purge --from 2030-01-31T08:00:00Z --to 2030-01-30T08:00:00Z", "dead purge --all --dry-run",
		},
		"rejected": {
			"rejected list", "rejected list --limit 2", "rejected list --topic mail.* --all",
			"rejected list --id order-7131", "rejected list --reason too_large", "rejected list --topic nothing",
			"rejected list --topic down", "rejected list --topic ''", "rejected list --limit 0",
			"rejected list --cursor x",
			"rejected show 3", "rejected show 5", "rejected show 8", "rejected show 99",
			"rejected requeue 3", "rejected requeue 3 --delay 20m", "rejected requeue 3 --delay 20m --at 1896076800000",
			"rejected requeue 3 5 8 99 --at 1896076800000 --drop X-Shop",
			"rejected requeue 3 --delay 20m --set Tarry-Id=unknown", "rejected requeue 3 --set a=b=c --topic a.*",
		},
		"topics": {
			"topics", "topics --limit 2", "topics --limit 0", "topics --cursor x", "topics orders.remind",
			"topics mail.in", "topics down", "topics orders.*",
			"topics pause orders.>", "topics pause one.too.many", "topics pause >.a", "topics resume orders.>",
			"topics resume mail.>", "topics pause unheard", "topics resume unheard",
		},
		"history": {"history requeued", "history order-7131", "history busy", "history order-7131 --key customer-9",
			"history " + string(someUID), "history steering", "history nobody", "history twice",
			"history refused"},
		"list": {
			"list", "list --limit 2", "list --topic orders.remind --key customer-9 --state waiting,dead --due-from " +
				"2030-01-31T08:00:00Z --due-to 1896076800000",
			"list --id refused --limit 1", "list --topic nothing", "list --topic down", "list --topic ''",
			"list --state soon", "list --limit 1001",
			"list --due-from soon", "list --cursor x",
		},
		"held": {"held"},
		"events": {"events", "events --kind dead --limit 1", "events --kind late", "events --kind strange",
			"actions", "actions --who ann --what pause", "actions --who ''"},
		"forecast": {
			"forecast --until 12m", "forecast --topic orders.remind --step 1h --until 12h",
			"forecast --topic nothing --until 2m", "forecast --topic orders.>", "forecast --step 1s --until 1d",
			"forecast --until yesterday", "forecast --by topic --until 12m", "forecast --by pattern --top 21",
		},
		"restore": {
			"restore --all", "restore --dry-run", "restore --topic orders.remind --overdue=false --rate 100",
			"restore --topic orders.> --dry-run",
			"restore --topic orders.>", "restore --topic a.>.b", "restore --topic down --all", "restore --topic ''",
			"restore --rate 1000001", "restore order-7131", "restore order-7131 --key customer-9 --dry-run",
			"restore nobody", "restore t-0000000000000000",
		},
		"verify": {"verify", "verify --repair", "verify --revive"},
		"redeliver": {
			"redeliver --since 2h", "redeliver --since 2030-01-31T08:00:00Z --topic orders.remind --dry-run",
			"redeliver --since 2h --topic refused",
			"redeliver --since soon", "redeliver --since 2031-01-31T08:00:00Z",
			"redeliver --since 2h --topic orders.* --dry-run", "redeliver --since 2h --topic a.>.b",
		},
		"pull": {
			"pull bills", "pull bills --max 2 --wait 1s --lease 1m --consumer worker-1 --ack", "pull nothing", "pull down",
			"pull bills orders.remind", "pull bills bills", "pull bills --max 1001", "pull bills.*", "pull bills --wait 2m",
			"ack " + receipt("bills"), "ack " + receipt("bills") + " " + receipt("lost"), "ack x", "ack " + receipt("unsure"),
			"nack " + receipt("bills") + " --delay 5m",
			"dead " + receipt("bills") + " --reason spoiled", "extend " + receipt("bills") + " --lease 1m",
			"extend " + receipt("bills"), "release " + receipt("bills"), "release --id order-7131 --reason stuck",
			"release --id waits", "release --id nobody",
		},
		"cluster": {"cluster", "cluster --detail", "resign", "resign --reason maintenance"},
		"usage": {
			"push", "push a b", "push a - x", "push a --dely 20m", "push a --header novalue", "push a --priority high",
			"push a --priority=", "push a --body x -", "push a --body x --body-file y",
			"push a --delay 1s --body-file testdata/missing", "get", "get a b", "cancel", "cluster x",
			"get a --server nowhere", "get a --timeout 5", "psuh a",
			"cancel --topic orders.remind", "cancel --topic a*b",
			"reschedule --topic orders.remind --key customer-9 --delay 1h",
			"dead purge --topic orders.remind", "dead requeue --topic orders.remind --delay 1h",
			"cancel a b", "cancel a --all", "cancel a --dry-run", "cancel --key customer-9", "cancel --dry-run",
			"cancel --all=maybe",
			"reschedule", "reschedule a --due-to 1h", "reschedule --all --body x --delay 1s",
			"reschedule --all --if-version 3 --delay 1s", "reschedule a --delay ''",
			"reschedule a --if-version new",
			"reschedule a --if-version ''", "reschedule a --priority high", "reschedule a --header novalue",
			"reschedule a --body x --body-file y", "reschedule a --body-file testdata/missing",
			"pull", "pull a ''", "ack", "nack", "dead x", "extend",
			"release", "release a --id b", "release a --reason b", "ack a --reason b",
			"run", "run a b", "dead lst", "dead list x", "dead requeue", "dead requeue a --older 1h",
			"dead requeue a b --topic c", "dead purge --all --key k",
			"dead requeue a b --body x", "dead requeue --all --body x", "dead requeue a --dry-run",
			"dead requeue a --delay ''", "dead purge", "dead purge a --older 1h", "dead purge a --delay 1h",
			"rejected lst", "rejected list x", "rejected show", "rejected show x", "rejected show 1 2",
			"rejected requeue", "rejected requeue 0", "rejected requeue 1 --set x",
			"topics a b", "topics a --limit 5", "topics pause", "topics resume a b", "topics pause a --all",
			"history", "list x", "forecast x", "restore", "restore --topic orders.remind", "restore a b",
			"restore a --all", "restore a --overdue=false", "restore a --rate 5", "restore --key k",
			"restore --all --key k", "restore --all=maybe", "restore --all=false --topic orders.remind",
			"restore --rate 0", "restore --rate fast", "restore --overdue=maybe", "verify x", "redeliver",
			"redeliver x", "redeliver --since 1h --topc x",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := keeping(recorded{many: 3})
			cfg.Rejects = refused{}
			cfg.Events, cfg.Actions, cfg.Details = happened, acted, detailed
			environ := serve(t, cfg)
			var b strings.Builder
			for _, command := range commands {
				args := strings.Fields(command)
				for i := range args {
					args[i] = strings.ReplaceAll(args[i], "''", "")
				}
				b.WriteString(transcript(tarry(t, "", environ, args...), environ, args))
				if name == "usage" {
					continue
				}
				args = append(args, "--json")
				r := tarry(t, "", environ, args...)
				if !json.Valid([]byte(r.out)) || r.err != "" || strings.Count(r.out, "\n") != 1 {
					t.Errorf("%v: out %q, err %q", args, r.out, r.err)
				}
				b.WriteString(transcript(r, environ, args))
			}
			golden(t, name+".golden", strings.ReplaceAll(b.String(), stateWords(), "STATES"))
		})
	}
}

// receipt returns the receipt of a message that was pulled from a topic.
func receipt(topic string) string {
	return ops.Receipt{UID: string(someUID), Nonce: 1, Topic: topic}.String()
}

// stateWords returns all states as a refusal lists them.
func stateWords() string {
	var words []string
	for _, s := range message.States() {
		words = append(words, s.String())
	}
	return strings.Join(words, ", ")
}

func TestResign_ThatIsRefusedExitsWith4AndSaysWhoLeads(t *testing.T) {
	t.Parallel()
	environ := serve(t, api.Config{Config: ops.Config{Service: scripted{}, Cluster: fixedCluster{ops.ErrNotLeader}}})
	tarry(t, "", environ, "resign").want(t, exitState, "tarry-1 at 10.0.0.1:7070 does")
}

func TestCommands_TakeWhatPeopleType(t *testing.T) {
	t.Parallel()
	s, _ := real(t)
	environ := serve(t, api.Config{Config: ops.Config{Service: s}})
	at := strings.TrimPrefix(environ[0], "TARRY_SERVER=http://")
	tarry(t, "", []string{"TARRY_SERVER=" + at}, "push", "a.b", "--delay", "2w", "--id", "typed").want(t,
		exitDone, "typed (")
	tarry(t, "", nil, "--json", "--server", at, "get", "typed").want(t, exitDone, `{"id":"typed"`)
	tarry(t, "", environ, "--json", "--timeout=5s", "dead", "list").want(t, exitDone, `{"messages":[]}`)
	file := filepath.Join(t.TempDir(), "a.yaml")
	_, port, _ := net.SplitHostPort(at)
	if err := os.WriteFile(file, []byte("http: {listen: \"0.0.0.0:"+port+"\"}\nnamespace: shop\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	tarry(t, "", nil, "cluster", "--config", file).want(t, exitDone, "namespace shop")
	tarry(t, "", []string{"TARRY_CONFIG=" + file}, "cluster").want(t, exitDone, "namespace shop")
	tarry(t, "", []string{"TARRY_HTTP_LISTEN=:" + port}, "cluster").want(t, exitDone, "namespace shop")
	// somebody else's variable stops no command
	tarry(t, "", append(environ, "TARRY_URL=x", "TARRY_NATS_PORT=1"), "cluster").want(t, exitDone, "namespace shop")
	if got, want := strange([]string{"TARRY_URL=x", "TARRY_\x1b=x"}), `"TARRY_\x1b, TARRY_URL": no setting of tarry has `+
		`this name; ignored`; got != want {
		t.Errorf("it says %s, want %s", got, want)
	}
	// the environment is stronger than the file
	other := []string{"TARRY_HTTP_LISTEN=127.0.0.1:1", "TARRY_CONFIG=" + file}
	tarry(t, "", other, "cluster").want(t, exitFailed, "call http://127.0.0.1:1: ")
	tarry(t, "", append(other, environ...), "cluster").want(t, exitDone, "namespace shop")
	tarry(t, "", other, "cluster", "--server", at).want(t, exitDone, "namespace shop")
	tarry(t, "", append(other, "TARRY_HTTP_TLS_CERT=cert.pem"), "cluster").want(t, exitFailed,
		"call https://127.0.0.1:1: ")
	for _, args := range [][]string{
		{"push", "a", "--delay", "20"}, {"push", "a", "--delay", "1s", "--ttl", "20"},
		{"reschedule", "typed", "--shift=-20"}, {"dead", "requeue", "a", "--delay", "20"},
		{"dead", "purge", "--older", "20"},
	} {
		tarry(t, "", environ, args...).want(t, exitUsage,
			`20" has no unit; write 20ms for milliseconds, 20s for seconds or 20m for minutes (invalid_`)
	}
	for _, args := range [][]string{
		{"push", "a", "--delay", "5x"}, {"push", "a", "--delay", "1s", "--ttl", "5x"},
		{"reschedule", "typed", "--shift=-5x"}, {"dead", "purge", "--older", "5x"},
	} {
		r := tarry(t, "", environ, args...).want(t, exitUsage,
			`5x" is not a duration; want a duration such as 20m or 1d12h (invalid_`)
		if signed := strings.Contains(r.err, `"-5x"`); signed != (args[0] == "reschedule") {
			t.Errorf("%v: %q", args, r.err)
		}
		if strings.Contains(r.err, "milliseconds") {
			t.Errorf("%v: %q", args, r.err)
		}
	}
	tarry(t, "", environ, "push", "a", "--delay", "0").want(t, exitDone, "is due on a")
	for _, args := range [][]string{{"get", ""}, {"cancel", ""}, {"history", ""}, {"run", ""},
		{"restore", ""}, {"restore", "", "--topic", "orders.remind"}, {"restore", "", "--all"}, {"dead", "requeue", ""},
		{"dead", "purge", "a", ""},
	} {
		if r := tarry(t, "", environ, args...).want(t, exitUsage, ""); !strings.Contains(r.err, "ID is empty") {
			t.Errorf("%v: %q", args, r.err)
		}
	}
	tarry(t, "", nil, "__complete", "list", "--state", "dead,w").want(t, exitDone, "dead,waiting")
	tarry(t, "", nil, "__complete", "push", "a", "--on-duplicate", "").want(t, exitDone, "debounce")
	tarry(t, "", nil, "__complete", "serve", "--journal.mode", "").want(t, exitDone, "off\nasync\nsync\n")
	tarry(t, "", nil, "__complete", "dev", "--log.level", "").want(t, exitDone, "debug\n")
	tarry(t, "", nil, "__complete", "doctor", "--http.insecure=").want(t, exitDone, "true\nfalse\n")
	// What the instance knows, and nothing without one.
	known := serve(t, keeping(recorded{many: 3}))
	for _, line := range [][]string{{"list", "--topic"}, {"topics", "pause"}, {"push"}} {
		tarry(t, "", known, append(append([]string{"__complete"}, line...), "orders.")...).want(t, exitDone,
			"orders.cancel\norders.remind\n")
	}
	for _, line := range [][]string{{"cancel"}, {"dead", "requeue"}, {"why"}} {
		tarry(t, "", known, append(append([]string{"__complete"}, line...), "order-")...).want(t, exitDone, "order-0\n:4")
	}
	tarry(t, "", []string{"TARRY_SERVER=http://127.0.0.1:1"}, "__complete", "cancel", "").want(t, exitDone, ":4\n")
}

// What is piped in must not be lost without a word.
func TestPush_NeverDropsWhatIsPipedIn(t *testing.T) {
	t.Parallel()
	s, _ := real(t)
	environ := serve(t, api.Config{Config: ops.Config{Service: s}})
	push := []string{"push", "orders.remind", "--delay", "1h", "--id", "piped"}
	r := tarry(t, "order 7131", environ, push...).want(t, exitUsage, "")
	if !strings.Contains(r.err, "add - to read it, or --body '' for an empty body") {
		t.Errorf("got %q", r.err)
	}
	if r := tarry(t, "order 7131", environ, append(push, "--body-file", "")...).want(t, exitUsage, ""); !strings.Contains(
		r.err, "--body-file: open : no such file") { // an empty name is no name of standard input
		t.Errorf("got %q", r.err)
	}
	tarry(t, "", environ, "get", "piped").want(t, exitNotFound, "")
	tarry(t, "", environ, push...).want(t, exitDone, "piped (") // nothing is piped in
}

func TestHealth_ExitsByWhatIsMissing(t *testing.T) {
	t.Parallel()
	checks := []api.Check{{Name: "redis", Needed: true}}
	environ := serve(t,
		api.Config{Config: ops.Config{Service: scripted{}},
			Token: "a-token-of-the-instance", Ready: func(context.Context) []api.Check {
				return checks
			}})
	// of serve, in the same container
	environ = append(environ, "TARRY_HTTP_LISTEN=:7070", "TARRY_REDIS_ADDRS=redis:6379")
	tarry(t, "", environ, "health").want(t, exitDone, "ready\n")
	tarry(t, "", environ, "health", "--json").want(t, exitDone, `{"ready":true`)
	checks = append(checks, api.Check{Name: "nats", Err: errors.New("dial 10.0.0.9:4222")},
		api.Check{Name: "zookeeper"})
	tarry(t, "", environ, "health").want(t, exitDone, "ready, but degraded: nats\n")
	checks = append(checks,
		api.Check{Name: "journal", Needed: true, Buckets: []message.Bucket{0, 3}, Err: errors.New("away")})
	if r := tarry(t, "", environ, "health").want(
		t, exitFailed, "not ready: nats, journal in buckets [0 3]\n"); r.out != "" {
		t.Errorf("out %q", r.out)
	}
	tarry(t, "", append(environ, "TARRY_TOKEN=a-token-of-the-instance"), "cluster").want(t, exitDone,
		"\nthis instance lacks nats (dial 10.0.0.9:4222), journal in buckets [0 3] (away)\n")
	tarry(t, "", environ, "health", "--json").want(t, exitFailed, `{"ready":false`)
	tarry(t, "", environ, "health", "--live").want(t, exitDone, "live\n")
	tarry(t, "", environ, "health", "--live", "--json").want(t, exitDone, `{"live":true}`)
}

func TestToken_ComesFromTheSettingsAndIsNeverPrinted(t *testing.T) {
	t.Parallel()
	const token = "a-token-of-the-instance"
	environ := serve(t, api.Config{Config: ops.Config{Service: scripted{}},
		Token: token})
	tarry(t, "", environ, "get", "a").want(t, exitFailed, "; set it by --token or TARRY_TOKEN")
	tarry(t, "", environ, "get", "a", "--token", "another").want(t, exitFailed, "unknown token")
	for _, r := range []ran{
		tarry(t, "", environ, "get", "a", "--token", token).want(t, exitDone, "orders.remind"),
		tarry(t, "", append(environ, "TARRY_TOKEN="+token), "cancel", "a").want(t, exitDone, "is canceled"),
		tarry(t, "", append(environ, "TARRY_TOKEN="+token), "get", "--help").want(t, exitDone, "Usage"),
	} {
		if strings.Contains(r.out+r.err, token) {
			t.Errorf("the token shows: %q %q", r.out, r.err)
		}
	}
}

func TestPush_SendsBodyHeadersAndOptionsAsGiven(t *testing.T) {
	t.Parallel()
	s, _ := real(t)
	environ := serve(t, api.Config{Config: ops.Config{Service: s}})
	file := filepath.Join(t.TempDir(), "body")
	binary := "\x00\xff\n"
	if err := os.WriteFile(file, []byte(binary), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		in   string
		args []string
		body string
	}{
		{"", []string{"--body", "<text> & \"more\"  "}, "<text> & \"more\"  "},
		{"", []string{"--body-file", file}, binary},
		{"from a pipe\n", []string{"-"}, "from a pipe\n"},
		{"from a pipe", []string{"--body-file", "-"}, "from a pipe"},
		{"from a pipe", []string{"--body", "-"}, "from a pipe"},
		{"not read", []string{"--body", ""}, ""},
		{"", nil, ""},
	} {
		args := append([]string{"push", "orders.remind", "--at", "2030-01-31T08:00:00Z", "--json", "--key", "k",
			"--priority", "7", "--ttl", "1m",
			"--header", "X-A=1=2", "--header", "X-A=", "--header", "traceparent=00-4b"}, c.args...)
		var kept struct{ UID string }
		if err := json.Unmarshal(
			[]byte(tarry(t, c.in, environ, args...).want(t, exitDone, "uid").out), &kept); err != nil {
			t.Fatal(err)
		}
		i, err := s.Get(t.Context(), scheduler.Ref{UID: message.UID(kept.UID)})
		if err != nil {
			t.Fatal(err)
		}
		want := []message.Header{{Name: "traceparent", Value: "00-4b"}, {Name: "X-A", Value: "1=2"},
			{Name: "X-A", Value: ""}}
		if string(i.Body) != c.body || fmt.Sprint(i.Headers) != fmt.Sprint(want) || i.Key != "k" || i.Priority != 7 ||
			i.TTL.String() != "1m0s" || i.Due != someDue {
			t.Errorf("%q: got %+v", c.args, i)
		}
	}
}

func TestCommands_TellTheStoryOfAMessage(t *testing.T) {
	t.Parallel()
	s, timeline := real(t)
	environ := serve(t, api.Config{Config: ops.Config{Service: s}})
	do := func(code int, out string, args ...string) {
		t.Helper()
		tarry(t, "", environ, args...).want(t, code, out)
	}
	for _, id := range []string{"order-7131", "a/b", "...", "日本 1"} {
		do(exitDone, "is due on orders.remind at 2", "push", "orders.remind", "--delay", "1h", "--id", id)
		do(exitDone, "was pushed before; it is waiting", "push", "orders.remind", "--delay", "1h", "--id", id)
		do(exitState, "duplicate_id", "push", "orders.remind", "--delay", "2h", "--id", id)
		do(exitDone, "state     waiting", "get", id)
		do(exitDone, "state     waiting", "get", id, "--key", "")
		do(exitNotFound, "unknown_id", "get", id, "--key", "else")
		do(exitDone, " is canceled: it will not be delivered\n", "cancel", id)
		do(exitDone, "state     canceled", "get", id)
		do(exitNotFound, "unknown_id", "cancel", id+"x")
	}
	heads, err := timeline.Heads(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range heads {
		if h.Waiting != 0 {
			t.Errorf("%d messages wait", h.Waiting)
		}
	}
}

func TestCommands_SayWhenNobodyOrSomebodyElseAnswers(t *testing.T) {
	t.Parallel()
	closed := fmt.Sprintf("127.0.0.1:%d", lab.FreePort(t))
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // only then does the server see the client go
		<-r.Context().Done()
	}))
	t.Cleanup(silent.Close)
	page := func(status int, body string) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "http://127.0.0.1:1/")
			w.WriteHeader(status)
			_, _ = w.Write([]byte(body))
		}))
		t.Cleanup(s.Close)
		return s.URL
	}
	for name, c := range map[string]struct{ server, want string }{
		"nobody listens": {"http://" + closed,
			"connection refused; is tarry running there? --server or TARRY_SERVER name another"},
		"no answer":     {silent.URL, "no answer within 100ms"},
		"a bad gateway": {page(502, "<html>"), `answered "502 Bad Gateway" and not as tarry does`},
		"a web page":    {page(200, "<html>"), "not as tarry does"},
		"a redirect":    {page(302, ""), `answered "302 Found"`},
		"a wrong path":  {page(404, "404 page not found"), `answered "404 Not Found"`},
		"another problem": {page(500, `{"error":"internal","detail":"the log says what"}`),
			"the log says what (internal)"},
	} {
		for _, args := range [][]string{{"get", "a"}, {"push", "a", "--delay", "1s"}, {"health"}} {
			args = append(args, "--server", c.server)
			if c.server == silent.URL {
				args = append(args, "--timeout", "100ms")
			}
			if r := tarry(t, "", nil, args...).want(t, exitFailed, c.want); r.out != "" {
				t.Errorf("%s: out %q", name, r.out)
			}
			r := tarry(t, "", nil, append(args, "--json")...).want(t, exitFailed, `"error":`)
			if !json.Valid([]byte(r.out)) || r.err != "" {
				t.Errorf("%s: out %q, err %q", name, r.out, r.err)
			}
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out strings.Builder
	code := run(ctx, []string{"get", "a", "--server", silent.URL},
		outside{out: &out, err: &out, now: time.Now, zone: time.UTC})
	if code != exitFailed || out.String() != "tarry: interrupted\n" {
		t.Errorf("got %d %q", code, out.String())
	}
}

func TestVersion_NamesTheBuild(t *testing.T) {
	t.Parallel()
	r := tarry(t, "", nil, "version").want(t, exitDone, "")
	if !regexp.MustCompile(`^tarry \S+( \(.*\))?, go1\S+ \w+/\w+\n$`).MatchString(r.out) {
		t.Errorf("got %q", r.out)
	}
	if flag := tarry(t, "", nil, "--version").want(t, exitDone, ""); flag != r {
		t.Errorf("--version: got %+v, want %+v", flag, r)
	}
	var b built
	if err := json.Unmarshal([]byte(tarry(t, "", nil, "version", "--json").out), &b); err != nil || b != build() {
		t.Errorf("got %+v, %v", b, err)
	}
	full := built{Version: "v1.2.3", Commit: "0123456789abcdef", Time: "2030-01-31T08:00:00Z", Modified: true,
		Go: "go1.30", Platform: "linux/amd64"}
	got := full.String()
	if got != "tarry v1.2.3 (0123456789ab of 2030-01-31T08:00:00Z, modified), go1.30 linux/amd64" {
		t.Errorf("got %q", got)
	}
}

// A word that is no command is what is wrong, whatever flags follow it.
func TestRoot_NamesTheUnknownCommandBeforeItsFlags(t *testing.T) {
	t.Parallel()
	tarry(t, "", nil, "pussh", "orders", "--delay", "5m").want(t, exitUsage,
		`unknown command "pussh" (did you mean push?)`)
	tarry(t, "", nil, "dead", "lits", "--topic", "a").want(t, exitUsage, `unknown command "lits" (did you mean list?)`)
	tarry(t, "", nil, "push", "orders", "--dely", "5m").want(t, exitUsage, "(did you mean --delay?)")
}

func TestServeAndDev_TellRefusedSettingsFromWhatFailed(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"serve", "dev"} {
		r := tarry(t, "", nil, name, "--http.listen", "nowhere").want(t, exitUsage,
			`http.listen: "nowhere" has no port`)
		if strings.Contains(r.err, "--help") {
			t.Errorf("a bad value was taken for a bad flag: %q", r.err)
		}
		tarry(t, "", nil, name, "--http.lsten", "x").want(t, exitUsage, "(did you mean --http.listen?)")
		tarry(t, "", nil, name, "now").want(t, exitUsage, "see tarry "+name+" --help")
	}
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	tarry(t, "", nil, "dev", "--http.listen", taken.Addr().String(), "--nats.listen", "127.0.0.1:0").want(t, exitFailed,
		"address already in use; choose another with --http.listen")
}

func TestHelp_NamesTheExitCodesAndEveryCommand(t *testing.T) {
	t.Parallel()
	r := tarry(t, "", nil, "--help").want(t, exitDone,
		"Exit codes: 0 done, 1 failed, 2 bad usage, 3 not found, 4 refused")
	for _, name := range []string{"dev", "serve", "migrate", "push", "get", "list", "cancel", "reschedule", "run",
		"events", "actions", "history", "forecast", "held", "restore", "verify", "redeliver", "dead", "topics", "cluster",
		"resign", "health", "config", "token", "version"} {
		if !strings.Contains(r.out, "\n  "+name+" ") {
			t.Errorf("%s is not in the help", name)
		}
	}
}
