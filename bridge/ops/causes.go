package ops

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/tarry-mq/tarry/scheduler/message"
)

// DeadGroups is what dead messages died of, the most messages first.
type DeadGroups struct {
	Groups []DeadGroup `json:"groups"`
	Others int         `json:"others,omitempty"` // messages of further groups
	// To is when the latest died that may be counted: a requeue until then leaves those that died later alone.
	To     message.Milli `json:"to"`
	Looked WhyPlace      `json:"looked"`
}

// DeadGroup is the messages of a topic that died of one cause.
type DeadGroup struct {
	Cause string          `json:"cause"`
	Topic string          `json:"topic"`
	Word  message.WhyWord `json:"word"`
	Text  string          `json:"text"` // the reason, with # for what differs
	Count int             `json:"count"`
	First message.Milli   `json:"first"` // when the first and the last of them died
	Last  message.Milli   `json:"last"`
	// ByHour counts those that died in each of the last 24 hours, the last one last.
	ByHour    [24]int       `json:"by_hour"`
	Uncertain int           `json:"uncertain,omitempty"` // may have been delivered
	Latest    []DeadExample `json:"latest"`              // the last that died, the last first
}

// DeadExample is one of the messages of a group.
type DeadExample struct {
	UID     message.UID   `json:"uid"`
	ID      string        `json:"id"`
	At      message.Milli `json:"at"` // when it died
	Attempt uint32        `json:"attempt"`
	Reason  string        `json:"reason,omitempty"`
}

// maxCauses is how many groups an answer has, and maxLatest how many messages of each.
const (
	maxCauses = 200
	maxLatest = 4
)

// deadGroups groups dead messages by what they died of.
func (o *Ops) deadGroups(ctx context.Context, _ *Caller, in *Died) (*DeadGroups, error) {
	type key struct{ topic, from, to string }
	return o.causes.get(ctx, key{in.Topic, in.From.text(), in.To.text()}, viewsKeep, o.Timeout,
		func(ctx context.Context) (*DeadGroups, error) { return o.readCauses(ctx, in) })
}

func (o *Ops) readCauses(ctx context.Context, in *Died) (*DeadGroups, error) {
	q, err := (&DeadList{Died: *in}).listing(o.Now())
	if err != nil {
		return nil, err
	}
	now := message.Milli(o.Now().UnixMilli())
	q.DiedTo = min(cmp.Or(q.DiedTo, now), now)
	a := &DeadGroups{Groups: []DeadGroup{}, To: q.DiedTo, Looked: WhyPlace{Place: "store"}}
	dead, err := o.listed(ctx, q, "", listMost, listMost)
	if err != nil {
		return nil, err
	}
	a.Looked.Read, a.Looked.Whole = dead.read, dead.next == ""
	at := map[string]int{}
	for i := range dead.found {
		m := &dead.found[i]
		cause, text := m.Cause()
		place, known := at[cause]
		if !known {
			place, at[cause] = len(a.Groups), len(a.Groups)
			a.Groups = append(a.Groups, DeadGroup{Cause: cause, Topic: m.Topic, Word: m.WhyEnded().Word, Text: text,
				First: m.EndedAt, Last: m.EndedAt, Latest: []DeadExample{}})
		}
		g := &a.Groups[place]
		g.Count++
		g.First, g.Last = min(g.First, m.EndedAt), max(g.Last, m.EndedAt)
		if m.Mark.Uncertain {
			g.Uncertain++
		}
		g.Latest = append(g.Latest, DeadExample{m.UID, name(m), m.EndedAt, m.Tries(), m.Reason})
		slices.SortFunc(g.Latest, func(x, y DeadExample) int {
			return cmp.Or(cmp.Compare(y.At, x.At), x.UID.Compare(y.UID))
		})
		g.Latest = g.Latest[:min(len(g.Latest), maxLatest)]
		if hours := a.To.Time().Sub(m.EndedAt.Time()) / time.Hour; hours >= 0 && int(hours) < len(g.ByHour) {
			g.ByHour[len(g.ByHour)-1-int(hours)]++
		}
	}
	slices.SortStableFunc(a.Groups, func(x, y DeadGroup) int {
		return cmp.Or(y.Count-x.Count, cmp.Compare(y.Last, x.Last), cmp.Compare(x.Cause, y.Cause))
	})
	for _, g := range a.Groups[min(len(a.Groups), maxCauses):] {
		a.Others += g.Count
	}
	a.Groups = a.Groups[:min(len(a.Groups), maxCauses)]
	return a, nil
}
