package ops

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/record"
)

const (
	// whyTime bounds one answer, whyMost what it reads of each place, and whyShown what it shows.
	whyTime  = 2 * time.Second
	whyMost  = 10_000
	whyShown = 100
)

// WhyAsked asks where the messages of an id, a topic or a key are.
type WhyAsked struct {
	ID    string `json:"id" as:"given id"`
	Topic string `json:"topic" as:"one topic"`
	Key   string `json:"key" as:"given key"`
}

func (in *WhyAsked) check() error {
	if in.ID+in.Topic+in.Key == "" {
		return Refuse(http.StatusBadRequest, WordQuery, "one of id, topic and key is needed")
	}
	return nil
}

// why answers where the messages of an id, a topic or a key are, and why, and how far it looked. A place that does
// not answer does not keep the others from being told.
func (o *Ops) why(ctx context.Context, by *Caller, in *WhyAsked) (*WhyList, error) {
	q := WhyQuery{Prefix: o.Prefix, Most: whyMost, See: by.sight(), ID: in.ID, Topic: in.Topic, Key: in.Key}
	ctx, stop := context.WithTimeout(ctx, whyTime)
	defer stop()
	select { // it makes many calls, so few are answered at a time
	case o.whys <- struct{}{}:
		defer func() { <-o.whys }()
	case <-ctx.Done():
	}
	// All places are asked at once: one that does not answer leaves the others their time.
	var (
		store, journal, rejects WhyPlace
		found                   []message.Info
		rows                    []record.Record
		refused, pushes         []WhyPush
		looked                  []WhyPlace
		asked                   Together
	)
	asked.Go(func() { found, store = o.whyStore(ctx, &q, by.Viewer()) })
	if o.Journal != nil {
		asked.Go(func() { rows, journal = o.whyJournal(ctx, &q) })
	}
	if o.Rejects != nil {
		asked.Go(func() { refused, rejects = o.whyRejects(ctx, &q) })
	}
	if o.Intake != nil {
		asked.Go(func() { pushes, looked = o.Intake.Look(ctx, q) })
	}
	asked.Wait()
	a := &WhyList{Messages: []Info{}, Pushes: append(refused, pushes...)}
	known := map[message.UID]bool{}
	for _, i := range append(found, o.whyRows(ctx, found, rows)...) {
		if !known[i.UID] && (q.See == nil || q.See(i.Topic)) {
			known[i.UID] = true
			one := InfoOf(&i)
			one.Headers, one.Body, one.BodyBase64 = nil, nil, nil
			a.Messages = append(a.Messages, one)
		}
	}
	for _, p := range append([]WhyPlace{store, journal, rejects}, looked...) {
		if p.Place != "" {
			// The place says what does not answer.
			p.Error = strings.TrimPrefix(p.Error, scheduler.ErrUnavailable.Error()+": ")
			if q.See != nil { // of the others' messages it tells nothing, nor where tarry runs
				if p.Read, p.Whole = 0, false; p.Error != "" {
					p.Error = "it does not answer"
				}
			}
			a.Looked = append(a.Looked, p)
		}
	}
	return a, nil
}

// whyStore returns the messages that the store has and the viewer may see.
func (o *Ops) whyStore(ctx context.Context, q *WhyQuery, by *scheduler.Viewer) (found []message.Info,
	p WhyPlace) {
	p = WhyPlace{Place: "store", Read: 1, Whole: true}
	var uids []message.UID
	var err error
	if q.ID == "" {
		var page []message.Info
		var next string
		page, next, p.Read, err = o.Service.Listed(ctx, scheduler.Listing{Selection: scheduler.Selection{Topic: q.Topic,
			Key: q.Key, HasKey: q.Key != ""}}, "", whyShown, whyMost)
		p.Whole = next == ""
		for i := range page {
			uids = append(uids, page[i].UID)
		}
	} else if ref, bad := Ref(Named{ID: q.ID, Topic: q.Topic, Key: keyOf(q.Key)}); bad == nil {
		ref.Viewer = by
		found, uids, err = o.named(ctx, ref)
	}
	for _, uid := range uids {
		info, failed := o.Service.Get(ctx, scheduler.Ref{UID: uid, Viewer: by})
		if failed == nil {
			found = append(found, info)
		} else if err == nil && !errors.Is(failed, scheduler.ErrUnknownID) { // else it has ended meanwhile
			err = failed
		}
	}
	if err != nil && !errors.Is(err, scheduler.ErrUnknownID) && !errors.Is(err, scheduler.ErrRejected) {
		p.Whole, p.Error = false, ProblemOf(err).Detail
	}
	return found, p
}

// named returns the message that ref means, or the uids of several.
func (o *Ops) named(ctx context.Context, ref scheduler.Ref) (one []message.Info, several []message.UID, err error) {
	info, err := o.Service.Get(ctx, ref)
	if many := (*scheduler.AmbiguousError)(nil); errors.As(err, &many) {
		for i := range many.Candidates {
			several = append(several, many.Candidates[i].UID)
		}
		return nil, several, nil
	}
	if err != nil {
		return nil, nil, err
	}
	return []message.Info{info}, nil, nil
}

// whyJournal returns the rows that the journal has.
func (o *Ops) whyJournal(ctx context.Context, q *WhyQuery) (records []record.Record, p WhyPlace) {
	p = WhyPlace{Place: "journal"}
	list := record.RecordQuery{ID: q.ID, Topic: q.Topic, Key: q.Key, Limit: whyShown, Latest: true}
	if message.IsUID(q.ID) {
		list.ID = ""
	}
	if q.ID+q.Key == "" {
		list.States = []message.State{message.StateWaiting, message.StateDead}
	}
	records, err := o.Journal.List(ctx, list)
	if message.IsUID(q.ID) {
		records = nil // the store asked the journal for it
	}
	if p.Read, p.Whole = len(records), err == nil && len(records) < whyShown; err != nil {
		p.Error = ProblemOf(err).Detail
	}
	return records, p
}

// whyRows returns the messages that the journal has beyond those found: ended ones of an id or a key, and live ones
// that the store lacks, or of which it says nothing.
func (o *Ops) whyRows(ctx context.Context, found []message.Info, rows []record.Record) (more []message.Info) {
	for i := range rows {
		info := rows[i].Info
		if slices.ContainsFunc(found, func(f message.Info) bool { return f.UID == info.UID }) {
			continue
		}
		if info.State.Ended() {
			info.Why = info.WhyEnded()
		} else if now, err := o.Service.Get(ctx, scheduler.Ref{UID: info.UID}); err == nil {
			info = now
		} else if errors.Is(err, scheduler.ErrUnknownID) {
			info.Why = message.Why{Word: message.WhyMissing,
				Detail: "the journal has it, and the store has not: see tarry verify"}
		} else {
			info.Why = message.Why{Word: message.WhyStoreAway,
				Detail: "the journal has it, and the store does not answer"}
		}
		more = append(more, info)
	}
	return more
}

// whyRejects returns the pushes that were refused although NATS had acknowledged them.
func (o *Ops) whyRejects(ctx context.Context, q *WhyQuery) (pushes []WhyPush, p WhyPlace) {
	rejects, next, err := o.Rejects.List(ctx, RejectQuery{ID: q.ID, Topic: q.Topic, Limit: whyShown,
		See: q.See})
	p = WhyPlace{Place: "rejects", Read: len(rejects), Whole: err == nil && next == 0}
	if err != nil && !errors.Is(err, ErrNoRejects) {
		p.Error = ProblemOf(err).Detail
	}
	for i := range rejects {
		if one := &rejects[i]; q.Key == "" || q.Key == one.Key {
			pushes = append(pushes, WhyPush{ID: one.ID, Key: one.Key, Topic: one.Topic, At: one.At,
				Why: message.Why{Word: message.WhyRejected, Detail: cmp.Or(one.Detail, one.Word), Since: one.At}})
		}
	}
	return pushes, p
}

// keyOf returns a key that is asked for, or nil for any.
func keyOf(key string) *string {
	if key == "" {
		return nil
	}
	return &key
}
