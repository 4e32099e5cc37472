package world_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tarry-mq/tarry/bridge/api"
	"github.com/tarry-mq/tarry/bridge/ops"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/lead"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/steer"
)

// doors is how users reach a process: they call it, or send it requests.
type doors interface {
	AcceptAll(ctx context.Context, batch []*scheduler.Push) []scheduler.Accepted
	Get(ctx context.Context, ref scheduler.Ref) (message.Info, error)
	Cancel(ctx context.Context, ref scheduler.Ref) (scheduler.CancelResult, error)
	Reschedule(ctx context.Context, ref scheduler.Ref, e scheduler.Edit) (scheduler.AmendResult, error)
	Pull(ctx context.Context, p scheduler.Poll) ([]scheduler.PulledMessage, error)
	GiveBack(ctx context.Context, found []scheduler.PulledMessage)
	Settle(ctx context.Context, orders []scheduler.Settlement) ([]scheduler.Settled, []error)
}

// web is the HTTP API of a process, and a client of it that knows of tarry what docs/api.md says. The network between
// them loses requests and answers.
type web struct {
	p       *process
	service instance
	api     *api.Server
}

// instance is what the doors ask.
type instance struct {
	*steer.Scheduler
	*lead.Leader
}

var _ doors = (*web)(nil)

// nobody is asked about the cluster.
type (
	nobody    struct{ inCluster }
	inCluster = ops.Election
)

func (p *process) listen(registry *prometheus.Registry) *web {
	d := &web{p: p, service: instance{p.Scheduler, p.leader}}
	var err error
	d.api, err = api.New(api.Config{Config: ops.Config{Service: d.service, Cluster: nobody{}, Namespace: "world"},
		Gatherer: registry, Registerer: registry})
	if err != nil {
		p.w.t.Fatal(err)
	}
	return d
}

// reply is an answer, whichever it is.
type reply struct {
	status int

	UID        string
	State      string
	Error      string
	Due        time.Time
	At         time.Time
	Version    uint64
	Duplicate  bool
	LeaseUntil time.Time `json:"lease_until"`
	Buried     bool
	Messages   []struct {
		Receipt    string
		Body       string
		Attempt    uint32
		LeaseUntil time.Time `json:"lease_until"`
	}
	Results []reply
}

// errNoAnswer: the client heard nothing.
var errNoAnswer = errors.New("no answer")

func (a *reply) milli(t time.Time) message.Milli {
	if t.IsZero() {
		return 0
	}
	return message.Milli(t.UnixMilli())
}

// err returns what an answer that is no success says, in the scheduler's words.
func (a *reply) err() error {
	switch {
	case a.Error == "":
		return nil
	case a.Error == "outcome_unknown":
		return scheduler.ErrOutcomeUnknown
	case a.Error == "unknown_id":
		return scheduler.ErrUnknownID
	case a.Error == "in_intake":
		return scheduler.ErrInIntake
	case a.status >= http.StatusInternalServerError:
		return fmt.Errorf("%w: %s", scheduler.ErrUnavailable, a.Error)
	}
	return errors.New(a.Error)
}

// ended returns the state in which the message has ended that a conflict tells of.
func (a *reply) ended() (message.State, bool) {
	word, is := strings.CutPrefix(a.Error, "already_")
	state, known := message.ParseState(word)
	return state, is && known
}

// refusals are what a correct request may be refused with.
var refusals = []string{"unknown_id", "in_flight", "maybe_delivered", "lease_lost"}

// do sends a request. An error means that nobody knows what became of it.
func (d *web) do(ctx context.Context, method, path string, fields map[string]any) (a reply, err error) {
	t := d.p.w.bus.enter(d.p, "http "+method+" "+path)
	lost := !d.p.w.over && d.p.w.faults["http"] && t.roll.IntN(30) == 0
	if t.dead {
		return a, errNoAnswer
	}
	if lost && t.roll.IntN(2) == 0 {
		d.p.w.met("http: a request is lost")
		return a, errNoAnswer
	}
	var body []byte
	if fields != nil {
		if body, err = json.Marshal(fields); err != nil {
			return a, err
		}
	}
	r := httptest.NewRequestWithContext(ctx, method, "http://127.0.0.1"+path, bytes.NewReader(body))
	w := httptest.NewRecorder()
	d.api.ServeHTTP(w, r)
	switch {
	case lost:
		d.p.w.met("http: an answer is lost")
		return a, errNoAnswer
	case ctx.Err() != nil:
		return a, errNoAnswer
	}
	if a, err = decode(w.Body.Bytes()); err != nil {
		d.p.w.t.Errorf("seed %d: %s %s is answered by %d %.300q: %v", d.p.w.seed, method, path, w.Code, w.Body, err)
	}
	a.status = w.Code
	d.p.w.met(fmt.Sprint("http: ", method, " ", w.Code))
	if w.Code >= 400 && w.Code < 500 && !slices.Contains(refusals, a.Error) && !strings.HasPrefix(a.Error, "already_") {
		d.p.w.t.Errorf("seed %d: %s %s %s is answered by %d %.300q", d.p.w.seed, method, path, body, w.Code, w.Body)
	}
	if (w.Code < 300) != (a.Error == "" || a.Error == "in_intake") {
		d.p.w.t.Errorf("seed %d: %s %s is answered by %d %.300q", d.p.w.seed, method, path, w.Code, w.Body)
	}
	return a, err
}

func decode(text []byte) (a reply, err error) {
	err = json.Unmarshal(text, &a)
	return a, err
}

func (d *web) AcceptAll(ctx context.Context, batch []*scheduler.Push) []scheduler.Accepted {
	m := batch[0]
	fields := map[string]any{"topic": m.Topic, "body": string(m.Body), "delay": m.Delay.String(), "priority": m.Priority}
	for name, value := range map[string]string{"id": m.ID, "uid": string(m.UID), "key": m.Key} {
		if value != "" {
			fields[name] = value
		}
	}
	if m.TTL > 0 {
		fields["ttl"] = m.TTL.String()
	}
	if m.Deliver == scheduler.DeliverPull {
		fields["deliver"] = "pull"
	}
	a, err := d.do(ctx, http.MethodPost, "/v1/messages", fields)
	if err != nil {
		return []scheduler.Accepted{{Err: fmt.Errorf("%w: %w", scheduler.ErrOutcomeUnknown, err)}}
	}
	got := scheduler.Accepted{UID: message.UID(a.UID), Due: a.milli(a.Due), Version: a.Version, Duplicate: a.Duplicate,
		Err: a.err()}
	return []scheduler.Accepted{got}
}

// path names a message as a user does, and what is to be done with it.
func path(ref scheduler.Ref, do string) string {
	if ref.UID != "" {
		return "/v1/messages/" + string(ref.UID) + do
	}
	path := "/v1/messages/" + ref.ID + do + "?topic=" + ref.Topic
	if ref.Keyed {
		path += "&key=" + ref.Key
	}
	return path
}

func (d *web) Get(ctx context.Context, ref scheduler.Ref) (info message.Info, err error) {
	a, err := d.do(ctx, http.MethodGet, path(ref, ""), nil)
	if err == nil {
		err = a.err()
	}
	if err == nil {
		info.State = d.state(a.State)
	}
	return info, err
}

// state parses a state. Users see one more than tarry's own: a message that is due and waits for a consumer.
func (d *web) state(word string) message.State {
	if word == "ready" {
		return message.StateWaiting
	}
	state, known := message.ParseState(word)
	if !known {
		d.p.w.t.Errorf("seed %d: the state of a message is %q", d.p.w.seed, word)
	}
	return state
}

func (d *web) Cancel(ctx context.Context, ref scheduler.Ref) (r scheduler.CancelResult, err error) {
	a, err := d.do(ctx, http.MethodDelete, path(ref, ""), nil)
	if err != nil {
		return r, err
	}
	var ended bool
	r.Info.State, ended = a.ended()
	switch {
	case a.Error == "":
		r.Code = scheduler.CancelDone
	case ended:
		r.Code = scheduler.CancelEnded
	case a.Error == "in_flight":
		r.Code = scheduler.CancelInFlight
	case a.Error == "maybe_delivered":
		r.Code = scheduler.CancelMaybe
	case a.Error == "unknown_id", a.Error == "in_intake":
		r.Code, r.Buried, r.Info.IntakeUnknown = scheduler.CancelUnknown, a.Buried, a.Error == "in_intake"
	default:
		return r, a.err()
	}
	return r, nil
}

func (d *web) Reschedule(ctx context.Context, ref scheduler.Ref, e scheduler.Edit) (r scheduler.AmendResult,
	err error) {
	var a reply
	switch {
	case e.Run:
		a, err = d.do(ctx, http.MethodPost, path(ref, "/run"), nil)
	case e.Body != nil:
		a, err = d.do(ctx, http.MethodPatch, path(ref, ""), map[string]any{"body": string(e.Body)})
	default:
		a, err = d.do(ctx, http.MethodPatch, path(ref, ""), map[string]any{"delay": e.Delay.String()})
	}
	if err != nil {
		return r, err
	}
	ended := false
	r.Info.State, ended = a.ended()
	switch {
	case a.Error == "":
		r.Code, r.Info.UID, r.Info.Due = scheduler.AmendDone, message.UID(a.UID), a.milli(a.Due)
	case ended:
		r.Code = scheduler.AmendEnded
	case a.Error == "in_flight":
		r.Code = scheduler.AmendInFlight
	case a.Error == "maybe_delivered":
		r.Code = scheduler.AmendMaybe
	case a.Error == "unknown_id", a.Error == "in_intake":
		r.Code, r.Info.IntakeUnknown = scheduler.AmendUnknown, a.Error == "in_intake"
	default:
		return r, a.err()
	}
	return r, nil
}

func (d *web) Pull(ctx context.Context, p scheduler.Poll) (found []scheduler.PulledMessage, err error) {
	fields := map[string]any{"max": p.Max, "max_bytes": p.Bytes, "lease": p.Lease.String(), "wait": p.Wait.String(),
		"consumer": "of the world"}
	if p.Attempt != 0 {
		fields["attempt"], fields["sending"] = strconv.FormatUint(uint64(p.Attempt), 16), p.Sending
	}
	a, err := d.do(ctx, http.MethodPost, "/v1/topics/"+p.Topic+"/pull", fields)
	if err == nil {
		err = a.err()
	}
	for _, one := range a.Messages {
		receipt, err := ops.ParseReceipt(one.Receipt) // opaque to users; the world names leases alike at all doors
		if err != nil {
			return nil, err
		}
		var m scheduler.PulledMessage
		m.Message = &message.Message{UID: message.UID(receipt.UID), Topic: p.Topic, Body: []byte(one.Body),
			Attempt: one.Attempt}
		m.Until, m.Nonce = a.milli(one.LeaseUntil), scheduler.Nonce(receipt.Nonce)
		found = append(found, m)
	}
	return found, err
}

// GiveBack has nothing to do: a client cannot give back what it has not got.
func (d *web) GiveBack(context.Context, []scheduler.PulledMessage) {}

func (d *web) Settle(ctx context.Context, orders []scheduler.Settlement) ([]scheduler.Settled, []error) {
	var receipts []string
	for _, o := range orders {
		receipts = append(receipts, ops.Receipt{UID: string(o.UID), Nonce: uint64(o.Nonce), Topic: o.Topic}.String())
	}
	verb, fields := verbs[orders[0].Verb], map[string]any{}
	if orders[0].Verb == scheduler.Extend {
		fields["lease"] = orders[0].Lease.String()
	}
	path := "/v1/leases/" + receipts[0] + "/" + verb
	if len(receipts) > 1 {
		path, fields["receipts"] = "/v1/leases/"+verb, receipts
	}
	a, err := d.do(ctx, http.MethodPost, path, fields)
	if len(receipts) == 1 {
		a.Results = []reply{a}
	}
	done, errs := make([]scheduler.Settled, len(orders)), make([]error, len(orders))
	for i := range orders {
		if err == nil && len(a.Results) != len(orders) {
			err = fmt.Errorf("%d results of %d receipts: %w", len(a.Results), len(orders), a.err())
		}
		if err != nil {
			errs[i] = err
			continue
		}
		one := a.Results[i]
		switch {
		case one.Error == "lease_lost":
			done[i].Code = scheduler.SettleLost
		case one.Error == "not_journaled":
			done[i].Code, done[i].Unjournaled = scheduler.SettleDone, true
		case one.Error != "":
			errs[i] = one.err()
		default:
			done[i].Code = scheduler.SettleDone
			if one.Duplicate {
				done[i].Code = scheduler.SettleAgain
			}
			done[i].Info.State, done[i].Info.Due = d.state(one.State), a.milli(one.Due)
			done[i].Until = a.milli(one.LeaseUntil)
		}
	}
	return done, errs
}
