package ops

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/record"
)

// slow is a store that gives nothing more after the first messages, and silent a journal that gives nothing at all.
type (
	slow struct {
		Service
		gives int
	}
	silent struct{ Journal }
)

func (s *slow) Listed(ctx context.Context, _ scheduler.Listing, _ string, _, _ int) ([]message.Info, string, int,
	error) {
	<-ctx.Done()
	return make([]message.Info, s.gives), "0:0:", s.gives, ctx.Err()
}

func (s *slow) HeldLanes(context.Context) ([]scheduler.HeldGroup, error) {
	return []scheduler.HeldGroup{{Why: message.Why{Word: message.WhyPaused}, Name: "orders.>", Lane: "a"}}, nil
}

func (s *slow) ReadyTopics(context.Context, int) ([]scheduler.HeldGroup, bool, error) {
	return nil, true, nil
}
func (s *slow) View(context.Context, ...*message.Info) error { return nil }

func (s *slow) ParkedTopics(context.Context, []string) (map[string]message.Why, error) {
	return map[string]message.Why{}, nil
}

func (silent) List(ctx context.Context, _ record.RecordQuery) ([]record.Record, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func (silent) Lag(context.Context) (record.Lag, error) { return record.Lag{}, nil }

func TestLists_TellAStoreThatIsSlowFromOneThatHasNothing(t *testing.T) {
	t.Parallel()
	word, name := "paused", "orders.>"
	of := func(gives int, journal bool) *Ops {
		cfg := Config{Service: &slow{gives: gives}, Now: time.Now, Timeout: time.Minute,
			Overview: func(context.Context) Overview { return Overview{} }}
		if journal {
			cfg.Journal = silent{}
		}
		return New(cfg)
	}
	for what, ask := range map[string]struct {
		route string
		in    any
		whole func(out any) bool
	}{
		"a list": {"GET /v1/messages", &List{}, func(out any) bool {
			a := out.(*MessageList)
			return a.Cursor == "" || len(a.Messages) != 3
		}},
		"a group of what is held": {"GET /v1/messages", &List{Held: &word, Name: &name}, func(out any) bool {
			a := out.(*MessageList)
			return a.Looked.Whole || len(a.Messages) != 3
		}},
		"the dead": {"GET /v1/dead", &DeadList{}, func(out any) bool {
			a := out.(*MessageList)
			return a.Cursor == "" || len(a.Messages) != 3
		}},
		"causes": {"GET /v1/dead/groups", &Died{}, func(out any) bool {
			a := out.(*DeadGroups)
			return a.Looked.Whole || a.Looked.Read != 3 || len(a.Groups) != 1
		}},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				if out, err := do(t, of(3, false), ask.route, ask.in); err != nil || ask.whole(out) {
					t.Errorf("what was read in time: %+v, %v", out, err)
				}
				for _, journal := range []bool{false, true} {
					want := "the store gave no answer in time"
					if what == "a list" && journal {
						want = "the journal gave no answer in time"
					}
					_, err := do(t, of(0, journal), ask.route, ask.in)
					if err == nil || err.Error() != "unavailable: "+want {
						t.Errorf("with a journal %t: %v, want %s", journal, err, want)
					}
				}
			})
		})
	}
}

// do does an operation as a request does.
func do(t *testing.T, o *Ops, route string, in any) (any, error) {
	t.Helper()
	for _, op := range o.Table() {
		if op.Route == route {
			ctx, stop := context.WithTimeout(t.Context(), o.Timeout)
			defer stop()
			return op.do(ctx, &Caller{}, in)
		}
	}
	t.Fatalf("no operation %s", route)
	return nil, nil
}
