package api_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tarry-mq/tarry/bridge/api"
	"github.com/tarry-mq/tarry/bridge/ops"
	"github.com/tarry-mq/tarry/bridge/wire"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/record"
)

// What may go wrong behind an operation: the errors that its port may answer.
var (
	away     = []error{scheduler.ErrUnavailable, errElse}
	notTaken = []error{scheduler.ErrUnavailable, scheduler.ErrFull, scheduler.ErrBehind, scheduler.ErrOutcomeUnknown,
		context.DeadlineExceeded, errElse}
	noSuch    = []error{scheduler.ErrUnknownID, scheduler.ErrAmbiguousID}
	perhaps   = append([]error{scheduler.ErrInIntake}, noSuch...)
	stopped   = []error{scheduler.ErrStopping, context.Canceled}
	pushFails = slices.Concat(notTaken,
		[]error{scheduler.ErrDuplicateID, scheduler.ErrStaleUID, scheduler.ErrMaybeDelivered,
			scheduler.ErrUnreadable, scheduler.ErrTooFar, scheduler.ErrBusy,
			scheduler.ErrStopping, scheduler.ErrDeliver, scheduler.ErrNoMachineID,
			scheduler.ErrClockBack, &scheduler.BucketError{Bucket: 1}})
	pullFails = []error{scheduler.ErrUnavailable, scheduler.ErrFull, scheduler.ErrOutcomeUnknown,
		context.DeadlineExceeded, errElse}
	pauseFails = []error{scheduler.ErrUnavailable, scheduler.ErrFull, scheduler.ErrOutcomeUnknown, errElse}

	fails = map[string][]error{
		"POST /v1/messages":            pushFails,
		"POST /v1/messages/batch":      pushFails, // in the results
		"GET /v1/messages/{id}":        slices.Concat(away, perhaps, []error{scheduler.ErrRejected}),
		"DELETE /v1/messages/{id}":     slices.Concat(notTaken, perhaps),
		"PATCH /v1/messages/{id}":      slices.Concat(notTaken, perhaps, []error{scheduler.ErrTooFar}),
		"POST /v1/messages/{id}/run":   slices.Concat(notTaken, perhaps),
		"POST /v1/messages/cancel":     slices.Concat(notTaken, stopped),
		"POST /v1/messages/reschedule": slices.Concat(notTaken, stopped),
		"GET /v1/dead": slices.Concat(away,
			[]error{scheduler.ErrBadCursor, context.DeadlineExceeded}),
		"POST /v1/dead/requeue": slices.Concat(notTaken, stopped, noSuch,
			[]error{scheduler.ErrNotDead, scheduler.ErrDuplicateID, scheduler.ErrTooFar}),
		"POST /v1/dead/purge":            slices.Concat(notTaken, stopped, noSuch, []error{scheduler.ErrNotDead}),
		"GET /v1/topics":                 away,
		"GET /v1/topics/{topic}":         away,
		"POST /v1/topics/{topic}/pause":  slices.Concat(pauseFails, []error{scheduler.ErrTooManyPauses}),
		"POST /v1/topics/{topic}/resume": pauseFails,
		"GET /v1/messages":               slices.Concat(away, []error{context.DeadlineExceeded}),
		"GET /v1/messages/{id}/history":  slices.Concat(away, noSuch, []error{scheduler.ErrRejected}),
		"POST /v1/messages/{id}/restore": slices.Concat(away, noSuch, []error{context.DeadlineExceeded}),
		"GET /v1/forecast":               away,
		"GET /v1/why":                    nil, // each place in the answer
		"POST /v1/restore":               slices.Concat(away, stopped),
		"POST /v1/verify":                slices.Concat(away, stopped),
		"POST /v1/redeliver":             slices.Concat(away, stopped),
		"GET /v1/rejects":                slices.Concat(away, []error{ops.ErrNoRejects, context.DeadlineExceeded}),
		"GET /v1/rejects/{sequence}":     slices.Concat(away, []error{ops.ErrNoRejects, ops.ErrUnknownReject}),
		"POST /v1/rejects/requeue": slices.Concat(pushFails, refusedPushes(),
			[]error{ops.ErrNoRejects, ops.ErrUnknownReject, ops.ErrIncompleteReject}),
		"GET /v1/me":          nil, // it asks nothing
		"GET /v1/overview":    nil, // what fails is a condition
		"GET /v1/series":      {ops.ErrUnreachable, context.DeadlineExceeded, errElse},
		"GET /v1/events":      {ops.ErrUnreachable, context.DeadlineExceeded, errElse},
		"GET /v1/actions":     {ops.ErrUnreachable, context.DeadlineExceeded, errElse},
		"GET /v1/held":        away,
		"GET /v1/dead/groups": away,
		"GET /v1/cluster":     {ops.ErrUnreachable, errElse},
		"POST /v1/cluster/resign": {ops.ErrNoLeader, ops.ErrNotLeader, ops.ErrNoStandby,
			ops.ErrUnreachable, context.DeadlineExceeded, errElse},
		"DELETE /v1/cluster/instances/{instance}": {ops.ErrNotGone, ops.ErrUnreachable, context.DeadlineExceeded,
			errElse},
		"POST /v1/pull":                 slices.Concat(pullFails, []error{scheduler.ErrWebhook}),
		"POST /v1/topics/{topic}/pull":  slices.Concat(pullFails, []error{scheduler.ErrWebhook}),
		"GET /v1/topics/{topic}/leases": slices.Concat(away, []error{context.DeadlineExceeded}),
		"POST /v1/messages/{id}/release": {scheduler.ErrUnavailable, scheduler.ErrOutcomeUnknown, scheduler.ErrUnknownID,
			scheduler.ErrInIntake, &scheduler.AmbiguousError{}, scheduler.ErrNotLeased, errElse},
		"POST /v1/leases/{receipt}/ack":     pullFails,
		"POST /v1/leases/{receipt}/nack":    pullFails,
		"POST /v1/leases/{receipt}/dead":    pullFails,
		"POST /v1/leases/{receipt}/extend":  pullFails,
		"POST /v1/leases/{receipt}/release": pullFails,
		"POST /v1/leases/ack":               nil, // in the results
		"POST /v1/leases/nack":              nil,
		"POST /v1/leases/dead":              nil,
		"POST /v1/leases/extend":            nil,
		"POST /v1/leases/release":           nil,
		"GET /livez":                        nil,
		"GET /readyz":                       nil,
		"GET /metrics":                      nil,
	}
)

// refusedPushes are the mistakes that the headers of a push can have.
func refusedPushes() (all []error) {
	for _, word := range []string{wire.WordTopic, wire.WordDelay, wire.WordAt, wire.WordNoDelay, wire.WordDelayAndAt,
		wire.WordID, wire.WordKey, wire.WordOnDuplicate, wire.WordDeliver, wire.WordPriority, wire.WordTTL,
		wire.WordAttempt, wire.WordRetry, wire.WordMaxWait, wire.WordLease, wire.WordReason, wire.WordHeader, ops.WordBody,
		wire.WordUnsupported, ops.WordTooFar, wire.WordUnknown, wire.WordRepeated, wire.WordTooLarge} {
		all = append(all, &wire.Error{Word: word, Field: "header", Detail: "is wrong"})
	}
	return all
}

// badMore are requests of the journal and the cluster that cannot be meant, and queries.
var badMore = [][3]string{
	{"GET", "/v1/messages?topic=", ""}, {"GET", "/v1/messages?key=", ""}, {"GET", "/v1/messages?id=", ""},
	{"GET", "/v1/messages?state=gone", ""}, {"GET", "/v1/messages?due_from=soon", ""},
	{"GET", "/v1/messages?due_to=1", ""}, {"GET", "/v1/messages?limit=0", ""}, {"GET", "/v1/messages?cursor=x", ""},
	{"GET", "/v1/messages/a?topic=", ""}, {"DELETE", "/v1/messages/a?topic=a.*", ""},
	{"PATCH", "/v1/messages/a?topic=a..b", `{"delay":"1ms"}`},
	{"POST", "/v1/messages/a/run?topic=", ""}, {"GET", "/v1/messages/a/history?topic=", ""},
	{"POST", "/v1/messages/a/restore?topic=", ""},
	{"GET", "/v1/messages/%20", ""}, {"GET", "/v1/messages/a?key=%0a", ""}, {"DELETE", "/v1/messages/%20", ""},
	{"DELETE", "/v1/messages/a?key=%0a", ""},
	{"POST", "/v1/messages/%20/run", ""}, {"POST", "/v1/messages/a/run?key=%0a", ""},
	{"GET", "/v1/messages/%20/history", ""}, {"GET", "/v1/messages/a/history?key=%0a", ""},
	{"POST", "/v1/messages/%20/restore", ""}, {"POST", "/v1/messages/a/restore?key=%0a", ""},
	{"POST", "/v1/messages/a/restore", `{"dry_run":1}`},
	{"POST", "/v1/messages/a/restore", `{"nonsense":1}`},
	{"POST", "/v1/messages/a/restore", `{"dry_run":true,"dry_run":true}`}, {"POST", "/v1/messages/a/restore", `{`},
	{"GET", "/v1/forecast?topic=", ""}, {"GET", "/v1/forecast?step=1ms", ""},
	{"GET", "/v1/why", ""}, {"GET", "/v1/why?id=", ""}, {"GET", "/v1/why?topic=a.*", ""}, {"GET", "/v1/why?key=", ""},
	{"GET", "/v1/why?nonsense=1", ""},
	{"GET", "/v1/forecast?by=x", ""}, {"GET", "/v1/forecast?by=topic&top=21", ""},
	{"GET", "/v1/forecast?until=1h&step=x", ""}, {"GET", "/v1/forecast?until=x", ""},
	{"POST", "/v1/restore", `{"overdue":1}`}, {"POST", "/v1/restore", `{"topic":""}`},
	{"POST", "/v1/restore", `{"dry_run":1}`}, {"POST", "/v1/restore", `{"rate":-1}`},
	{"POST", "/v1/restore", `{"rate":1,"rate":1}`}, {"POST", "/v1/restore", `{"nonsense":1}`},
	{"POST", "/v1/restore", `[]`},
	{"POST", "/v1/verify", `{"repair":1}`}, {"POST", "/v1/verify", `{"revive":1}`},
	{"POST", "/v1/verify", `{"repair":true,"repair":true}`},
	{"POST", "/v1/verify", `{"nonsense":1}`}, {"POST", "/v1/verify", `[]`},
	{"POST", "/v1/redeliver", `{}`}, {"POST", "/v1/redeliver", `{"since":"1h","topic":""}`},
	{"POST", "/v1/redeliver", `{"since":"1h","dry_run":1}`},
	{"POST", "/v1/redeliver", `{"since":"1h","since":"1h"}`}, {"POST", "/v1/redeliver", `{"nonsense":1}`},
	{"POST", "/v1/redeliver", `[]`},
	{"GET", "/v1/rejects?topic=", ""}, {"GET", "/v1/rejects?id=", ""}, {"GET", "/v1/rejects?reason=", ""},
	{"GET", "/v1/rejects?limit=0", ""}, {"GET", "/v1/rejects?cursor=x", ""},
	{"GET", "/v1/rejects/0", ""}, {"POST", "/v1/rejects/requeue", `[]`}, {"POST", "/v1/rejects/requeue", `{}`},
	{"POST", "/v1/rejects/requeue", `{"sequences":1}`},
	{"POST", "/v1/rejects/requeue", `{"sequence":1,"set":1}`},
	{"POST", "/v1/rejects/requeue", `{"sequence":1,"drop":1}`},
	{"POST", "/v1/rejects/requeue", `{"sequence":1,"sequence":1}`},
	{"POST", "/v1/rejects/requeue", `{"nonsense":1}`},
	{"GET", "/v1/topics/a.*/leases", ""}, {"GET", "/v1/topics/a/leases?limit=0", ""},
	{"GET", "/v1/topics/a/leases?cursor=x", ""}, {"GET", "/v1/topics/a/leases?limit=1&limit=2", ""},
	{"POST", "/v1/messages/%20/release", ""}, {"POST", "/v1/messages/a/release?key=%0a", ""},
	{"POST", "/v1/messages/a/release?topic=", ""},
	{"POST", "/v1/messages/a/release", `{"nonsense":1}`},
	{"POST", "/v1/messages/a/release", `{"reason":"a","reason":"b"}`}, {"POST", "/v1/messages/a/release", `[]`},
	{"POST", "/v1/topics/a.*/pull", ""}, {"POST", "/v1/topics/a/pull", `{"max":0}`},
	{"POST", "/v1/topics/a/pull", `{"max":1001}`}, {"POST", "/v1/topics/a/pull", `{"wait":"61s"}`},
	{"POST", "/v1/topics/a/pull", `{"attempt":"a"}`}, {"POST", "/v1/topics/a/pull", `{"attempt":"a","sending":11}`},
	{"POST", "/v1/pull", `{"topics":["a"],"sending":1}`},
	{"POST", "/v1/pull", `{"topics":["a"],"attempt":"a","sending":0}`},
	{"POST", "/v1/topics/a/pull", `{"attempt":"\n"}`}, {"POST", "/v1/topics/a/pull", `{"lease":"1ms"}`},
	{"POST", "/v1/topics/a/pull", `{"consumer":"a\nb"}`}, {"POST", "/v1/topics/a/pull", `{"max_bytes":0}`},
	{"POST", "/v1/topics/a/pull", `{"max":1,"max":1}`}, {"POST", "/v1/topics/a/pull", `[]`},
	{"POST", "/v1/pull", `{}`}, {"POST", "/v1/pull", `{"topics":["a","a"]}`}, {"POST", "/v1/pull", `{"topics":["a.*"]}`},
	{"POST", "/v1/pull", `{"topics":["a"],"max":0}`}, {"POST", "/v1/pull", `{"topics":["a"],"max":1001}`},
	{"POST", "/v1/pull", `{"topics":["a"],"wait":"61s"}`}, {"POST", "/v1/pull", `{"topics":["a"],"attempt":"\n"}`},
	{"POST", "/v1/pull", `{"topics":["a"],"lease":"1ms"}`}, {"POST", "/v1/pull", `{"topics":["a"],"consumer":"a\nb"}`},
	{"POST", "/v1/pull", `{"topics":["a"],"max_bytes":0}`}, {"POST", "/v1/pull", `{"topics":["a"],"topics":["b"]}`},
	{"POST", "/v1/pull", `{"topics":["a"],"nonsense":1}`}, {"POST", "/v1/pull", `[]`},
	{"POST", "/v1/leases/" + receiptA + "/ack", `[]`}, {"POST", "/v1/leases/" + receiptA + "/release", `[]`},
	{"POST", "/v1/leases/" + receiptA + "/nack", `{"delay":"x"}`},
	{"POST", "/v1/leases/" + receiptA + "/nack", `{"delay":"1ms","delay":"1ms"}`},
	{"POST", "/v1/leases/" + receiptA + "/dead", `{"reason":"a","reason":"b"}`},
	{"POST", "/v1/leases/" + receiptA + "/extend", ""},
	{"POST", "/v1/leases/" + receiptA + "/extend", `{"lease":"1000ms","lease":"1000ms"}`},
	{"POST", "/v1/leases/ack", `{}`}, {"POST", "/v1/leases/ack", `{"receipts":[],"receipts":[]}`},
	{"POST", "/v1/leases/release", `{}`}, {"POST", "/v1/leases/release", `{"receipts":[],"receipts":[]}`},
	{"POST", "/v1/leases/nack", `{"receipts":["a"],"delay":"x"}`},
	{"POST", "/v1/leases/nack", `{"delay":"1ms","delay":"1ms"}`},
	{"POST", "/v1/leases/nack", `{}`}, {"POST", "/v1/leases/dead", `{}`},
	{"POST", "/v1/leases/dead", `{"receipts":["a"],"receipts":["a"]}`},
	{"POST", "/v1/leases/extend", `{"receipts":["a"]}`}, {"POST", "/v1/leases/extend", `{"lease":"1000ms"}`},
	{"POST", "/v1/leases/extend", `{"lease":"1000ms","lease":"1000ms"}`},
	{"GET", "/v1/cluster?detail=yes", ""}, {"GET", "/v1/cluster?detail=true&detail=true", ""},
	{"POST", "/v1/cluster/resign", `[]`}, {"POST", "/v1/cluster/resign", `{"x":1}`},
	{"POST", "/v1/cluster/resign", `{"reason":5}`}, {"POST", "/v1/cluster/resign", `{"reason":"a","reason":"b"}`},
	{"GET", "/v1/topics?limit=0", ""}, {"GET", "/v1/topics?cursor=x", ""}, {"POST", "/v1/topics/a/resume", `[]`},
	{"POST", "/v1/topics/a/resume", `{"nonsense":1}`}, {"POST", "/v1/topics/a/pause", `[`},
	{"POST", "/v1/messages/cancel", `{"all":true,"all":true}`}, {"POST", "/v1/messages/cancel", `[]`},
	{"POST", "/v1/messages/cancel", `{"due_to":[]}`},
	{"POST", "/v1/dead/requeue", `{"all":true,"all":true}`}, {"POST", "/v1/dead/requeue", `[]`},
	{"POST", "/v1/dead/requeue", `{"nonsense":1}`}, {"POST", "/v1/dead/requeue", `{"topic":""}`},
	{"POST", "/v1/dead/requeue", `{"to":"x"}`}, {"POST", "/v1/dead/requeue", `{"all":1}`},
	{"POST", "/v1/dead/purge", `{"key":"k"}`}, {"POST", "/v1/dead/purge", `{"ids":1}`},
	{"POST", "/v1/dead/purge", `{"topic":""}`}, {"POST", "/v1/dead/purge", `{"from":"x"}`},
	{"POST", "/v1/dead/purge", `{"to":"x"}`}, {"POST", "/v1/dead/purge", `{"older":"x"}`},
	{"POST", "/v1/dead/purge", `{"all":1}`}, {"POST", "/v1/dead/purge", `{"all":true,"all":true}`},
	{"POST", "/v1/dead/purge", `[]`},
	{"POST", "/v1/messages/reschedule", `{"all":true,"all":true}`}, {"POST", "/v1/messages/reschedule", `[]`},
	{"POST", "/v1/messages/reschedule", `{"topic":""}`},
	{"POST", "/v1/messages/reschedule", `{"key":1}`}, {"POST", "/v1/messages/reschedule", `{"due_from":"x"}`},
	{"POST", "/v1/messages/reschedule", `{"due_to":"x"}`},
	{"POST", "/v1/messages/reschedule", `{"all":1}`}, {"POST", "/v1/messages/reschedule", `{"dry_run":1}`},
	{"POST", "/v1/messages/reschedule", `{"delay":"x"}`},
	{"POST", "/v1/messages/reschedule", `{"at":"x"}`}, {"POST", "/v1/messages/reschedule", `{"shift":"x"}`},
}

// Every answer that can be brought about is as it is described, and every problem that is described can be brought
// about.
func TestOpenAPI_AnswersAreAsDescribed(t *testing.T) {
	t.Parallel()
	d := describe(t, open(t))
	good := slices.Clone(askedOf)
	for _, c := range steerCalls {
		good = append(good, struct {
			method, target, body string
			may                  []string
		}{c.method, c.target, c.body, nil})
	}
	for _, c := range [][2]string{{"GET", "/livez"}, {"GET", "/readyz"},
		{"POST", "/v1/messages/" + string(uidA) + "/restore"}} {
		good = append(good, struct {
			method, target, body string
			may                  []string
		}{c[0], c[1], "", nil})
	}
	patterns := map[string]int{} // of the first good request
	none := open(t)
	for i, c := range slices.Backward(good) {
		patterns[none.Pattern(asked(t, c.method, c.target, ""))] = i
	}
	each := func(do func(pattern, method, target, body string)) {
		for pattern, i := range patterns {
			do(pattern, good[i].method, good[i].target, good[i].body)
		}
	}
	lined := []string{"Accept", "application/x-ndjson"}

	t.Run("successes", func(t *testing.T) {
		for _, w := range []*world{full(), bare()} {
			door := open(t, w.config)
			for _, c := range good {
				if a := d.ask(t, door, asked(t, c.method, c.target, c.body), c.body); a.status >= 300 &&
					c.target != "/readyz" {
					t.Errorf("%s %s: got %d %s", c.method, c.target, a.status, a.raw)
				}
				d.ask(t, door, asked(t, c.method, c.target, c.body, lined...), c.body)
			}
			for _, push := range []string{
				`"at":"2030-01-31T08:00:00+01:00","id":"a","key":"k","priority":255,"ttl":"60000ms","body":"",` +
					`"retry":"0,2m,10m*5~20%","deliver":"mq","headers":{"X":["1","2"],"Y":"z"}`,
				`"at":1896076800000,"id":"a","on_duplicate":"debounce","max_wait":"1d12h","body_base64":"AP8=",` +
					`"retry":[0,"2m",600000]`,
				`"attempt":2,"id":"a","retry":"exp(1s,1h,10)","reason":"no connection"`,
				`"delay":"1500","on_duplicate":"reject"`, `"delay":"+1.5h"`, `"at":"1896076800000"`,
			} {
				push = `{"topic":"orders.x",` + push + `}`
				d.ask(t, door, asked(t, "POST", "/v1/messages", push), push)
				batch := `{"messages":[` + push + `,{},` + push + `]}`
				d.ask(t, door, asked(t, "POST", "/v1/messages/batch", batch), "")
			}
			for _, query := range []string{"?limit=1",
				"?topic=a.b&key=k&state=dead,waiting&due_from=1896076800000&due_to=2030-01-31T09:00:00Z"} {
				d.ask(t, door, asked(t, "GET", "/v1/messages"+query, ""), "")
			}
			d.ask(t, door, asked(t, "GET", "/v1/topics?limit=1", ""), "")
			for target, body := range map[string]string{
				"/v1/restore":            `{"overdue":false,"topic":"a.b","dry_run":true,"rate":10}`,
				"/v1/verify":             `{"repair":true}`,
				"/v1/redeliver":          `{"since":"2030-01-31T09:00:00+01:00","topic":"a.b","dry_run":true}`,
				"/v1/messages/a/restore": `{"dry_run":true}`, "/v1/cluster/resign": `{"reason":"new kernel"}`} {
				d.ask(t, door, asked(t, "POST", target, body), body)
			}
		}
		w := full()
		w.accepted.Merged = true
		d.ask(t, open(t, w.config), asked(t, "POST", "/v1/messages", hourly(`,"id":"a","on_duplicate":"keep"`)), "")
		d.ask(t, open(t, w.config, func(c *api.Config) { c.JournalMode = "sync" }),
			asked(t, "POST", "/v1/messages", hourly("")), "")
		w.ready = nil
		d.ask(t, open(t, w.config), asked(t, "GET", "/readyz", ""), "")
		d.ask(t, open(t, w.config, func(c *api.Config) { c.Journal, c.JournalMode = nil, "" }),
			asked(t, "GET", "/v1/cluster", ""), "")
	})
	t.Run("failures behind it", func(t *testing.T) {
		each(func(pattern, method, target, body string) {
			list, known := fails[pattern]
			if !known {
				t.Errorf("%s: what may fail is not in the table", pattern)
			}
			for _, err := range list {
				door := open(t, failing(fmt.Errorf("as told: %w", err)).config)
				for _, header := range [][]string{nil, lined} {
					d.ask(t, door, asked(t, method, target, body, header...), "")
				}
				for _, c := range good { // the other forms of the same operation
					if r := asked(t, c.method, c.target, c.body); door.Pattern(r) == pattern {
						d.ask(t, door, r, "")
					}
				}
			}
		})
		lost, late := full(), full()
		lost.pullers.settled.Code = scheduler.SettleLost
		late.pullers.settled.Unjournaled = true
		for _, verb := range ops.Verbs() {
			body := ""
			if verb == ops.VerbExtend {
				body = `{"lease":"1m"}`
			}
			d.ask(t, open(t, lost.config), asked(t, "POST", "/v1/leases/"+receiptA+"/"+verb, body), "")
			if verb != ops.VerbExtend { // which changes nothing that the journal has
				d.ask(t, open(t, late.config), asked(t, "POST", "/v1/leases/"+receiptA+"/"+verb, body), "")
			}
			d.ask(t, open(t, lost.config), asked(t, "POST", "/v1/leases/x/"+verb, body), "")
		}
		w := failing(nil)
		w.steering.was = false
		d.ask(t, open(t, w.config), asked(t, "POST", "/v1/topics/a/resume", ""), "")
	})
	t.Run("what stands in the way", func(t *testing.T) {
		for _, state := range message.States() {
			for code := scheduler.AmendUnknown; code <= scheduler.AmendVersion; code++ {
				w := full()
				w.steering.amend.Code, w.steering.amend.Info.State = code, state
				if code == scheduler.AmendEnded && !state.Ended() {
					continue
				}
				for _, r := range [][3]string{{"PATCH", "/v1/messages/a", `{"priority":7}`},
					{"POST", "/v1/messages/a/run", ""}} {
					d.ask(t, open(t, w.config), asked(t, r[0], r[1], r[2], "If-Match", `"3"`), "")
				}
			}
			for _, code := range []scheduler.CancelCode{scheduler.CancelUnknown, scheduler.CancelDone,
				scheduler.CancelInFlight, scheduler.CancelMaybe, scheduler.CancelEnded} {
				w := full()
				w.canceled.Code, w.canceled.Info.State = code, state
				w.canceled.Info.IntakeUnknown = code != scheduler.CancelUnknown || state == message.StateDead
				if code == scheduler.CancelEnded && !state.Ended() {
					continue
				}
				d.ask(t, open(t, w.config), asked(t, "DELETE", "/v1/messages/a", ""), "")
			}
		}
		d.ask(t, open(t, full().config), asked(t, "PATCH", "/v1/messages/a", `{"priority":7}`, "If-Match", "x"), "")
		d.ask(t, open(t, full().config), asked(t, "POST", "/v1/messages/a/run", ``, "If-Match", "x"), "")
	})
	t.Run("bad requests", func(t *testing.T) {
		door := open(t, full().config)
		for _, c := range badPushes {
			d.ask(t, door, asked(t, "POST", "/v1/messages", c.body), "")
			d.ask(t, door, asked(t, "POST", "/v1/messages/batch", `{"messages":[`+c.body+`]}`), "")
		}
		for _, body := range []string{`{}`, `{"topic":1}`, `{"messages":[],"messages":[]}`,
			hourly(`,"attempt":2,"reason":1,"id":"a"`), hourly(`,"reason":"no"`), hourly(`,"deliver":"x"`)} {
			d.ask(t, door, asked(t, "POST", "/v1/messages", body), "")
			d.ask(t, door, asked(t, "POST", "/v1/messages/batch", body), "")
		}
		for _, verb := range ops.Verbs() {
			for _, body := range []string{`[]`, `{"nonsense":1}`} {
				d.ask(t, door, asked(t, "POST", "/v1/leases/"+verb, body), "")
				d.ask(t, door, asked(t, "POST", "/v1/leases/"+receiptA+"/"+verb, body), "")
			}
		}
		d.ask(t, door, asked(t, "POST", "/v1/topics/a/pull", `{"nonsense":1}`), "")
		for _, c := range badSteers {
			d.ask(t, door, asked(t, c.method, c.target, c.body), "")
		}
		for _, c := range badMore {
			if a := d.ask(t, door, asked(t, c[0], c[1], c[2]), ""); a.status < 400 {
				t.Errorf("%q is fine", c)
			}
		}
		each(func(_, method, target, _ string) {
			mark := "?"
			if strings.Contains(target, "?") {
				mark = "&"
			}
			d.ask(t, door, asked(t, method, target+mark+"x=%ZZ", ""), "")
			d.ask(t, door, asked(t, method, target+mark+"nonsense=1", ""), "")
		})
	})
	t.Run("bodies that do not arrive", func(t *testing.T) {
		door := open(t, full().config)
		busy := open(t, full().config)
		busy.Hold(busy.MaxBodies())
		each(func(pattern, method, target, body string) {
			if d.operations()[pattern]["requestBody"] == nil {
				return
			}
			for _, err := range []error{errSlow, errGone} {
				d.ask(t, door, httptest.NewRequestWithContext(t.Context(), method, target, breaking{err}), "")
			}
			d.ask(t, door, asked(t, method, target, body, "Content-Type", "text/xml"), "")
			large := asked(t, method, target, body)
			large.ContentLength = 1 << 40
			d.ask(t, door, large, "")
			d.ask(t, busy, asked(t, method, target, body), "")
		})
	})
	t.Run("who may not", func(t *testing.T) {
		door := open(t, full().config, letting(token("none", nil, false, false)))
		unguarded := open(t, full().config)
		each(func(_, method, target, body string) {
			foreign := asked(t, method, target, body)
			foreign.Host = "attacker.example"
			d.ask(t, unguarded, foreign, "")
			d.ask(t, door, asked(t, method, target, body), "")
			d.ask(t, door, asked(t, method, target, body, as("none")...), "")
			d.ask(t, door,
				asked(t, method, target, body, append(as("none"), "Origin", "https://elsewhere.example")...), "")
		})
	})
	t.Run("no journal, and panics", func(t *testing.T) {
		without := open(t, full().config, func(c *api.Config) { c.Journal, c.JournalMode = nil, "" })
		broken := full()
		broken.panics = true
		panicking := open(t, broken.config, func(c *api.Config) {
			c.Ready = func(context.Context) []api.Check { panic("no") }
			c.Hour = func(context.Context) (ops.Hour, error) { panic("no") } // beside the request
		})
		each(func(_, method, target, body string) {
			d.ask(t, without, asked(t, method, target, body), "")
			d.ask(t, panicking, asked(t, method, target, body), "")
		})
		for _, query := range []string{"topic=a", "by=topic", "by=topic&topic=a", "by=pattern&top=1"} {
			d.ask(t, without, asked(t, "GET", "/v1/forecast?"+query, ""), "")
		}
	})
	t.Run("long operations", func(t *testing.T) { longAsDescribed(t, d) })

	d.agrees(t, open(t).Ops().Table())
}

// cannotBringAbout are problems of the outside, which no test here has a hand in.
var cannotBringAbout = []string{
	"GET /livez 500 internal", // it asks nobody
	"GET /metrics 500 ",       // nothing could be gathered
	"GET /metrics 503 ",       // four others ask
}

// longAsDescribed lets each long operation report its progress, run beside as many of its kind as may, and fail on the
// way.
func longAsDescribed(t *testing.T, d *description) {
	for i, c := range [][2]string{{"/v1/messages/cancel", `{"all":true}`},
		{"/v1/messages/reschedule", `{"all":true,"delay":"1ms"}`}, {"/v1/dead/requeue", `{"all":true}`},
		{"/v1/dead/purge", `{"all":true}`}, {"/v1/restore", ``}, {"/v1/verify", ``},
		{"/v1/redeliver", `{"since":"1h"}`}} {
		for _, err := range []error{nil, scheduler.ErrUnavailable} {
			entered, leave := make(chan struct{}), make(chan struct{})
			wait := func() { entered <- struct{}{}; <-leave }
			w := full()
			w.steering.err = err
			w.steering.many = func(context.Context, func(scheduler.Report)) { wait() }
			w.journal.restore = func(context.Context, func(record.RestoreReport)) (record.RestoreReport, error) {
				wait()
				return record.RestoreReport{}, err
			}
			w.journal.verify = func(context.Context, func(record.VerifyReport)) (record.VerifyReport, error) {
				wait()
				return record.VerifyReport{}, err
			}
			w.journal.redeliver = func(context.Context,
				func(record.RedeliverReport)) (record.RedeliverReport, error) {
				wait()
				return record.RedeliverReport{}, err
			}
			door := open(t, w.config, func(c *api.Config) { c.ProgressEvery = time.Millisecond })
			ended := make(chan struct{})
			out := &flushed{ResponseRecorder: httptest.NewRecorder(), first: make(chan struct{})}
			r := asked(t, http.MethodPost, c[0], c[1], "Accept", "application/x-ndjson")
			go func() {
				defer close(ended)
				door.ServeHTTP(out, r)
			}()
			<-entered
			<-out.first // the first line is out
			var others sync.WaitGroup
			if i < 4 { // of those on many messages four may run
				for range 3 {
					others.Go(func() {
						door.ServeHTTP(httptest.NewRecorder(), asked(t, http.MethodPost, c[0], c[1]))
					})
					<-entered
				}
			}
			d.ask(t, door, asked(t, http.MethodPost, c[0], c[1]), "")
			close(leave)
			<-ended
			others.Wait()
			a := d.judge(t, door, r, out.ResponseRecorder, "")
			end := `{"report":`
			if err != nil {
				end = `"error":"unavailable"`
			}
			if last := a.raw[strings.LastIndex(strings.TrimSpace(a.raw), "\n")+1:]; !strings.HasPrefix(
				a.raw, `{"progress":`) || !strings.Contains(last, end) {
				t.Errorf("%s: got %s", c[0], a.raw)
			}
		}
	}
}
