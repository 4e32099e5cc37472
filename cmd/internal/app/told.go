package app

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/tarry-mq/tarry/bridge/ops"
	"github.com/tarry-mq/tarry/bridge/request"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/record"
)

// What instances ask each other for.
const (
	askPace    = "minutes"
	askEvents  = "events"
	askActions = "actions"
	askDetail  = "detail"
)

// actsKept is how many actions of operators an instance keeps.
const actsKept = 300

// acts keeps what operators did on this instance, the oldest first.
type acts struct {
	mu   sync.Mutex
	kept []record.Action
}

// add keeps an action, or how one ended.
func (a *acts) add(one record.Action) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.kept = slices.DeleteFunc(a.kept, func(kept record.Action) bool { return kept.ID == one.ID })
	a.kept = append(a.kept, one)
	a.kept = a.kept[max(len(a.kept)-actsKept, 0):]
}

func (a *acts) all() []record.Action {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.kept)
}

// tell returns what another instance asks for, nil if that is not known here.
func (a *App) tell(what string) any {
	switch what {
	case askPace:
		return a.pace.told()
	case askEvents:
		return a.events.Last()
	case askActions:
		return a.acts.all()
	case askDetail:
		return a.detail()
	}
	return nil
}

func (a *App) happened(ctx context.Context) ([]scheduler.Event, []string, error) {
	return gathered(ctx, a, askEvents, a.events.Last(), func(e scheduler.Event) message.Milli { return e.At })
}

func (a *App) acted(ctx context.Context) ([]record.Action, []string, error) {
	return gathered(ctx, a, askActions, a.acts.all(), func(one record.Action) message.Milli { return one.At })
}

// detail is what this instance tells of itself.
func (a *App) detail() *ops.InstanceDetail {
	own, _ := a.pace.look()
	d := &ops.InstanceDetail{Since: own.Since, Checks: a.api.Ops().Checks(context.Background())}
	for _, r := range a.clock.Readings() {
		ms := func(d time.Duration) float64 { return float64(d.Round(10*time.Microsecond).Microseconds()) / 1000 }
		d.Clocks = append(d.Clocks, ops.ClockReading{Source: r.Source, LeastMS: ms(r.Least), MostMS: ms(r.Most)})
	}
	return d
}

func (a *App) details(ctx context.Context) (map[string]*ops.InstanceDetail, error) {
	all := map[string]*ops.InstanceDetail{a.cfg.Instance: a.detail()}
	_, err := asked(ctx, a, askDetail, func(instance string, d *ops.InstanceDetail) error {
		all[instance] = d
		return nil
	})
	return all, err
}

// gathered returns what all instances keep of something, the last first, and which of them did not answer.
func gathered[T any](ctx context.Context, a *App, what string, own []T,
	at func(T) message.Milli) (all []T, missing []string, err error) {
	all = own
	missing, err = asked(ctx, a, what, func(_ string, told []T) error {
		all = append(all, told...)
		return nil
	})
	slices.SortStableFunc(all, func(x, y T) int { return cmp.Compare(at(y), at(x)) })
	return all, missing, err
}

// asked asks the others, and calls heard with what each tells. It returns who gave no answer that could be heard.
func asked[T any](ctx context.Context, a *App, what string, heard func(instance string, told T) error) ([]string,
	error) {
	others, err := a.others.known(ctx)
	if err != nil {
		return nil, err
	}
	missing, _ := a.others.Ask(ctx, what, others, func(instance string, text json.RawMessage) error {
		var told T
		if err := json.Unmarshal(text, &told); err != nil {
			return fmt.Errorf("read what it tells: %w", err)
		}
		return heard(instance, told)
	})
	return missing, nil
}

// others asks the other instances. They are as they were last known if the election does not answer.
type others struct {
	*request.Peers
	a    *App
	mu   sync.Mutex
	last []string
}

func (o *others) known(ctx context.Context) ([]string, error) {
	ctx, stop := context.WithTimeout(ctx, o.a.callTimeout())
	defer stop()
	info, err := o.a.cluster.Cluster(ctx)
	o.mu.Lock()
	defer o.mu.Unlock()
	if err == nil {
		o.last = []string{}
		for _, i := range info.Instances {
			if i.Instance != o.a.cfg.Instance && i.Role != ops.RoleGone {
				o.last = append(o.last, i.Instance)
			}
		}
	} else if o.last == nil {
		return nil, fmt.Errorf("list the instances: %w", err)
	}
	return o.last, nil
}
