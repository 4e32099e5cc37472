package api

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/tarry-mq/tarry/bridge/ops"
	"github.com/tarry-mq/tarry/bridge/wire"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/record"
)

const (
	defaultList = 100
	maxList     = 1000
	// maxPatternReads is the maximum number of journal pages read for one page of a pattern.
	maxPatternReads = 20
)

// listing is the request for a list.
type listing struct {
	record.RecordQuery
	// shown are the states that are asked for, or none for all. To the journal, ready and leased messages wait.
	shown []message.State
	// pattern selects topics if it has a wildcard, for which the journal has no index; else it is empty.
	pattern string
	// from and to are the bounds of the due time as given: on the next page "2h" is another moment, but the query is
	// the same.
	from, to string
}

// mark identifies the query.
func (l *listing) mark() string {
	return fmt.Sprintf("%q %q %q %q %v %q %q", l.Topic, l.pattern, l.ID, l.Key, l.shown, l.from, l.to)
}

// takes reports whether a record that the journal returned belongs in the list.
func (l *listing) takes(r *record.Record) bool {
	return l.pattern == "" || scheduler.Matches(l.pattern, r.Topic)
}

// list lists the messages that a query selects, live or ended, in the order of their due time.
func (s *Server) list(w http.ResponseWriter, r *http.Request) error {
	l, err := listQuery(r, s.cfg.Now())
	if err != nil {
		return err
	}
	var a ops.MessageList
	return s.show(w, r, "journal", &a, func(ctx context.Context) error {
		// The lag is read first: a change written between the two reads is then both counted and shown, rather than
		// neither.
		a.Lag = s.lag(ctx)
		page, next, err := s.page(ctx, &l)
		if err != nil {
			return err
		}
		if next != nil {
			a.Cursor = sealCursor(listMessages, l.mark(), fmt.Sprintf("%d %s", next.Due, next.UID))
		}
		if l.ID != "" && l.AfterUID == "" { // on the first page
			a.Rejected, err = s.cfg.Journal.Rejects(ctx, scheduler.Ref{ID: l.ID, Topic: l.Topic}, maxList)
			if err != nil {
				return err
			}
		}
		page, err = s.viewed(ctx, page, l.shown)
		a.Messages = make([]ops.Info, len(page))
		for i := range page {
			page[i].Headers, page[i].Body = nil, nil
			a.Messages[i] = ops.InfoOf(&page[i].Info)
			a.Messages[i].By = page[i].ChangedBy
		}
		s.explain(ctx, page, a.Messages)
		return err
	})
}

// page reads a page and returns the record after which the next page begins, or nil on the last page. It examines a
// bounded number of records, so if few match a pattern, a page may be short or empty and still have a next one.
func (s *Server) page(ctx context.Context, l *listing) (page []record.Record, next *record.Record, err error) {
	q := l.RecordQuery
	if l.pattern == "" {
		q.Limit++ // one more shows that there is a next page
	} else {
		q.Limit = maxList
	}
	for range maxPatternReads {
		found, err := s.cfg.Journal.List(ctx, q)
		if err != nil {
			return nil, nil, err
		}
		for i := range found {
			if !l.takes(&found[i]) {
				continue
			}
			if len(page) == l.Limit { // the first record after the page
				return page, &page[len(page)-1], nil
			}
			page = append(page, found[i])
		}
		if len(found) < q.Limit {
			return page, nil, nil
		}
		next = &found[len(found)-1]
		q.AfterDue, q.AfterUID = next.Due, next.UID
	}
	return page, next, nil
}

// viewed returns the records as messages are shown, and of these the ones in the given states. If the store does not
// answer and no state is asked for, the list stays as the journal has it.
func (s *Server) viewed(ctx context.Context, page []record.Record, shown []message.State) ([]record.Record, error) {
	infos := make([]*message.Info, len(page))
	for i := range page {
		infos[i] = &page[i].Info
	}
	err := s.cfg.Service.View(ctx, infos...)
	if len(shown) == 0 {
		return page, nil
	}
	return slices.DeleteFunc(page, func(r record.Record) bool { return !slices.Contains(shown, r.State) }), err
}

// explain adds the reason to overdue waiting messages. The journal does not know which lanes are held back, so explain
// asks the store; if the store does not answer, the list stays unchanged.
func (s *Server) explain(ctx context.Context, page []record.Record, messages []ops.Info) {
	now := message.CeilMilli(s.cfg.Now())
	overdue := func(r *record.Record) bool { return r.State == message.StateWaiting && r.Due < now }
	var topics []string
	for i := range page {
		if overdue(&page[i]) {
			topics = append(topics, page[i].Topic)
		}
	}
	if len(topics) == 0 {
		return
	}
	slices.Sort(topics)
	parked, err := s.cfg.Service.ParkedTopics(ctx, slices.Compact(topics))
	if err != nil {
		return
	}
	for i := range page {
		if overdue(&page[i]) {
			messages[i].Why = ops.WhyOf(parked[page[i].Topic])
		}
	}
}

// listQuery reads ?topic=&id=&key=&state=&due_from=&due_to=&limit=&cursor=. Absent parameters select everything. A
// topic may be a pattern, and a bound of the due time may be a duration from now, as in cancel.
func listQuery(r *http.Request, now time.Time) (listing, error) {
	q := listing{RecordQuery: record.RecordQuery{Limit: defaultList}}
	values, err := query(r, "topic", "id", "key", "state", "due_from", "due_to", "limit", "cursor")
	p := params{values, err}
	p.read("topic", func(text string) error {
		if q.Topic = text; isPattern(text) {
			q.Topic, q.pattern = "", text
		}
		return wire.CheckPattern(text)
	})
	p.read("id", func(text string) error {
		if q.ID = text; message.IsUID(text) {
			return refusal(http.StatusBadRequest, wire.WordID,
				"id %s is a uid, which names one message: get it, or its history, which has its retries too", text)
		}
		return wire.CheckID(text)
	})
	p.read("key", func(text string) error { q.Key = text; return wire.CheckKey(text) })
	p.read("state", func(text string) (err error) { q.shown, q.States, err = states(text); return err })
	q.from, q.to = values.Get("due_from"), values.Get("due_to")
	p.read("due_from", func(text string) (err error) { q.DueFrom, err = dueBound(text, "due_from", now); return err })
	p.read("due_to", func(text string) (err error) { q.DueTo, err = dueBound(text, "due_to", now); return err })
	p.read("limit", func(text string) (err error) { q.Limit, err = pageLimit(text); return err })
	if p.err == nil && q.DueFrom != 0 && q.DueTo != 0 && q.DueFrom > q.DueTo {
		p.err = refusal(http.StatusBadRequest, WordDueFrom, "due_from lies after due_to")
	}
	if slices.Equal(q.States, []message.State{message.StateWaiting}) && !slices.Contains(q.shown, message.StateWaiting) {
		q.DueTo = min(cmp.Or(q.DueTo, math.MaxInt64), message.CeilMilli(now)) // only what is due is ready or leased
	}
	p.read("cursor", func(text string) error { // last: it is checked against the others
		next, err := openCursor(listMessages, q.mark(), text)
		if err != nil {
			return err
		}
		_, err = fmt.Sscanf(next, "%d %s", &q.AfterDue, &q.AfterUID)
		if err != nil || !message.IsUID(string(q.AfterUID)) {
			return badCursor(text)
		}
		return nil
	})
	return q, p.err
}

// states reads a list of states, and returns also what they are to the journal.
func states(text string) (shown, kept []message.State, err error) {
	for word := range strings.SplitSeq(text, ",") {
		state, known := message.ParseState(word)
		if !known {
			return nil, nil, refusal(http.StatusBadRequest, WordState,
				"state %.40q is unknown; want %s, or several of them joined by commas",
				word, strings.Join(message.Words(), ", "))
		}
		shown = append(shown, state)
		if state == message.StateReady || state == message.StateInFlight {
			state = message.StateWaiting
		}
		kept = append(kept, state)
	}
	slices.Sort(shown)
	slices.Sort(kept)
	return slices.Compact(shown), slices.Compact(kept), nil
}

// dueBound reads a bound of the due time. A result of 0, the first moment of 1970, would mean no bound, so dueBound
// returns -1 for it.
func dueBound(text, name string, now time.Time) (message.Milli, error) {
	when, err := ops.ParseWhen(text, name)
	if err != nil {
		return 0, err
	}
	if ms := message.CeilMilli(when.Ahead(now)); ms != 0 {
		return ms, nil
	}
	return -1, nil
}

// isPattern reports whether a topic is a pattern rather than a literal subject.
func isPattern(topic string) bool {
	return strings.ContainsAny(topic, "*>") && wire.CheckOneTopic(topic) != nil
}

// A cursor is the position at which a list continues, in a form that each list defines. A mark in front of the position
// binds it to the list and its query, because with another query the cursor would silently skip messages. The mark also
// detects damage. Callers send the text back unchanged:
//
//	base64url( form (1 byte) | mark (8) | where the list continues )
//
// The limit is not part of the query. A forged cursor only shows another page of messages that the caller may see
// anyway.

const (
	cursorForm = 2
	cursorText = 1 + 8 // where the list's part begins
)

// The lists that have cursors.
const (
	listMessages = "messages"
	listDead     = "dead"
	listTopics   = "topics"
	listLeases   = "leases"
	listRejects  = "rejects"
)

func sealCursor(list, query, next string) string {
	b := append(make([]byte, 0, cursorText+len(next)), cursorForm)
	b = append(b, cursorMark(list, query, next)...)
	return base64.RawURLEncoding.EncodeToString(append(b, next...))
}

func openCursor(list, query, cursor string) (next string, err error) {
	b, err := base64.RawURLEncoding.Strict().DecodeString(cursor)
	if err != nil || len(b) <= cursorText || b[0] != cursorForm {
		return "", badCursor(cursor)
	}
	if next = string(b[cursorText:]); string(b[1:cursorText]) != string(cursorMark(list, query, next)) {
		return "", refusal(http.StatusBadRequest, WordCursor,
			"cursor belongs to another query; all but limit must stay as it was")
	}
	return next, nil
}

func badCursor(cursor string) error {
	return refusal(http.StatusBadRequest, WordCursor, "cursor %.40q is not one from an answer", cursor)
}

func cursorMark(list, query, next string) []byte {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %q %q", list, query, next))
	return sum[:8]
}

const (
	defaultStep  = time.Minute
	minStep      = time.Second
	defaultAhead = time.Hour
	maxSteps     = 10_000
)

// firstDue is earlier than every due time: the start of the year 0.
const firstDue message.Milli = -62_167_219_200_000

// forecast counts the messages that fall due, step by step, including empty steps.
func (s *Server) forecast(w http.ResponseWriter, r *http.Request) error {
	f, err := forecastQuery(r, s.cfg.Now())
	if err != nil {
		return err
	}
	a := record.Outlook{Steps: make([]record.Forecast, steps(f))}
	for i := range a.Steps {
		a.Steps[i].From = f.From + message.Milli(i)*f.Step
	}
	return s.show(w, r, "journal", &a, func(ctx context.Context) error {
		before := f
		before.From, before.Until, before.Step = firstDue, f.From, f.From-firstDue
		overdue, err := s.cfg.Journal.Forecast(ctx, before)
		if err != nil {
			return err
		}
		for _, o := range overdue {
			a.Overdue += o.Count
		}
		ahead, err := s.cfg.Journal.Forecast(ctx, f)
		for _, step := range ahead {
			if i := int((step.From - f.From) / f.Step); i >= 0 && i < len(a.Steps) {
				a.Steps[i].Count += step.Count
			}
		}
		return err
	})
}

// steps returns the number of steps until the end; the last may be shorter.
func steps(f record.ForecastQuery) int { return int((f.Until - f.From + f.Step - 1) / f.Step) }

// forecastQuery reads ?topic=&step=&until=.
func forecastQuery(r *http.Request, now time.Time) (record.ForecastQuery, error) {
	step, until := defaultStep, now.Add(defaultAhead)
	f := record.ForecastQuery{From: message.CeilMilli(now)}
	values, err := query(r, "topic", "step", "until")
	p := params{values, err}
	p.read("topic", func(text string) error {
		if f.Topic = text; isPattern(text) {
			f.Topic, f.Pattern = "", text
		}
		return wire.CheckPattern(text)
	})
	p.read("step", func(text string) (err error) {
		if step, err = wire.ParseSpan(text, "step"); err == nil && step < minStep {
			return refusal(http.StatusBadRequest, WordStep, "step %.40q is too short; the least is %s", text, minStep)
		}
		return err
	})
	p.read("until", func(text string) error {
		when, err := ops.ParseWhen(text, "until")
		if until = when.Ahead(now); err == nil && !until.After(now) {
			return refusal(http.StatusBadRequest, WordUntil, "until %.40q is not after now", text)
		}
		return err
	})
	if p.err != nil {
		return f, p.err
	}
	f.Step, f.Until = message.Milli(step/time.Millisecond), message.CeilMilli(until)
	if n := steps(f); n > maxSteps {
		return f, refusal(http.StatusBadRequest, WordStep, "step of %s makes %d steps until %s, the limit is %d",
			step, n, ops.FormatTime(int64(f.Until)), maxSteps)
	}
	return f, nil
}

// history answers with the last changes of a message, by version, and of every other message of its name.
func (s *Server) history(w http.ResponseWriter, r *http.Request) error {
	ref, err := reference(r)
	if err != nil {
		return err
	}
	var a ops.History
	return s.show(w, r, "journal", &a, func(ctx context.Context) error {
		lives, err := s.cfg.Journal.History(ctx, ref)
		if err != nil {
			return err
		}
		if a.More = len(lives) > record.MaxLives; a.More {
			lives = lives[:record.MaxLives]
		}
		for i := range lives {
			l := &lives[i]
			one := ops.Life{UID: l.UID, State: l.State, Due: l.Due, Kind: l.Kind, Other: l.Other, Reason: l.Reason,
				History: changeAnswers(l, mayRead(r), message.CeilMilli(s.cfg.Now())), Earlier: l.Earlier}
			if i > 0 {
				a.Others = append(a.Others, one)
				continue
			}
			a.ID, a.UID, a.History, a.Earlier = cmp.Or(l.ID, string(l.UID)), l.UID, one.History, one.Earlier
		}
		if ref.ID == "" {
			return nil
		}
		a.Rejected, err = s.cfg.Journal.Rejects(ctx, ref, record.MaxLives)
		return err
	})
}

// changeAnswers returns changes as the caller may see them. A caller that may only push sees the outcome of its message
// and the time, but not where tarry runs, nor who else changed it. That a message which consumers pull became ready is
// no change: it shows between those before and after.
func changeAnswers(l *record.Life, whole bool, now message.Milli) []record.Change {
	all := make([]record.Change, 0, len(l.Changes))
	for i, c := range l.Changes {
		if !whole {
			c.Reason, _, _ = strings.Cut(c.Reason, "; content ") // a digest could confirm a guess
			c.Instance, c.Address, c.Term, c.By, c.Stream, c.Sequence = "", "", 0, "", "", 0
		}
		all = append(all, c)
		until := now
		if i+1 < len(l.Changes) {
			until = l.Changes[i+1].At
		}
		if ready := max(c.Due, c.At); l.Pull && c.State == message.StateWaiting && ready <= until {
			all = append(all, record.Change{Version: c.Version, State: message.StateReady, At: ready, Due: c.Due,
				Bucket: c.Bucket})
		}
	}
	return all
}
