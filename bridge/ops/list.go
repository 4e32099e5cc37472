package ops

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tarry-mq/tarry/bridge/wire"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/record"
)

const (
	DefaultList = 100
	MaxList     = 1000
	// maxPatternReads is the maximum number of journal pages read for one page of a pattern.
	maxPatternReads = 20
	// listMost is how many messages of the store are looked at for one page, and listWithin how long.
	listMost   = 10_000
	groupMost  = 2000 // of a group of what is held
	listWithin = 2 * time.Second
)

// List asks for messages. What is left out selects everything.
type List struct {
	Topic   *string `json:"topic" as:"pattern"`
	ID      *string `json:"id" as:"given id"`
	Key     *string `json:"key" as:"given key"`
	State   *States `json:"state"`
	DueFrom *When   `json:"due_from"` // a duration counts from now on
	DueTo   *When   `json:"due_to"`
	Held    *string `json:"held"` // only what this holds back that is due, under that name
	Name    *string `json:"name"`
	Page
}

func (in *List) check() error {
	switch others := in.Topic != nil || in.ID != nil || in.Key != nil || in.State != nil || in.DueFrom != nil ||
		in.DueTo != nil || in.Cursor != nil; {
	case (in.Held == nil) != (in.Name == nil):
		return wire.Invalid(FieldHeld, "and name need each other: the word and the name of a group of /v1/held")
	case in.Held != nil && others:
		return wire.Invalid(FieldHeld, "stands with name and limit alone")
	}
	if in.ID != nil && message.IsUID(*in.ID) {
		return Refuse(http.StatusBadRequest, wire.WordID,
			"id %s is a uid, which names one message: get it, or its history, which has its retries too", *in.ID)
	}
	return nil
}

// States are states of messages. To the journal, ready and leased messages wait.
type States struct{ shown, kept []message.State }

// parseStates reads a list of states, joined by commas.
func parseStates(text string) (all States, err error) {
	for word := range strings.SplitSeq(text, ",") {
		state, known := message.ParseState(word)
		if !known {
			return all, wire.Invalid(FieldState, fmt.Sprintf("%s is unknown; want %s, or several of them joined by commas",
				wire.Quote(word), strings.Join(message.Words(), ", ")))
		}
		all.shown = append(all.shown, state)
		if state == message.StateReady || state == message.StateInFlight {
			state = message.StateWaiting
		}
		all.kept = append(all.kept, state)
	}
	slices.Sort(all.shown)
	slices.Sort(all.kept)
	return States{slices.Compact(all.shown), slices.Compact(all.kept)}, nil
}

// listing is the request for a list, as the journal takes it. The store takes a part of it.
type listing struct {
	record.RecordQuery
	shown []message.State // that are asked for, or none for all
	// pattern selects topics if it has a wildcard, for which the journal has no index; else it is empty.
	pattern string
	mark    string // identifies the query
}

// takes reports whether a record that the journal returned belongs in the list.
func (l *listing) takes(r *record.Record) bool {
	return l.pattern == "" || scheduler.Matches(l.pattern, r.Topic)
}

func (in *List) listing(now time.Time) (l listing, err error) {
	or := func(s *string) string { return *cmp.Or(s, new(string)) }
	l.RecordQuery = record.RecordQuery{Limit: in.limit(), Topic: or(in.Topic), ID: or(in.ID), Key: or(in.Key),
		DueFrom: dueBound(in.DueFrom, now), DueTo: dueBound(in.DueTo, now)}
	if isPattern(l.Topic) {
		l.Topic, l.pattern = "", l.Topic
	}
	if in.State != nil {
		l.shown, l.States = in.State.shown, in.State.kept
	}
	if l.DueFrom != 0 && l.DueTo != 0 && l.DueFrom > l.DueTo {
		return l, Refuse(http.StatusBadRequest, WordDueFrom, "due_from lies after due_to")
	}
	if slices.Equal(l.States, []message.State{message.StateWaiting}) && !slices.Contains(l.shown, message.StateWaiting) {
		l.DueTo = min(cmp.Or(l.DueTo, math.MaxInt64), message.CeilMilli(now)) // only what is due is ready or leased
	}
	// Bounds are in the mark as they were given: on the next page "2h" is another moment, but the query is the same.
	l.mark = fmt.Sprintf("%q %q %q %q %v %q %q", l.Topic, l.pattern, l.ID, l.Key, l.shown, in.DueFrom.text(),
		in.DueTo.text())
	return l, nil
}

// dueBound returns a bound of the due time. A result of 0, the first moment of 1970, would mean no bound, so dueBound
// returns -1 for it.
func dueBound(when *When, now time.Time) message.Milli {
	if when == nil {
		return 0
	}
	return cmp.Or(message.CeilMilli(when.Ahead(now)), -1)
}

// isPattern reports whether a topic is a pattern rather than a literal subject.
func isPattern(topic string) bool {
	return strings.ContainsAny(topic, "*>") && wire.CheckOneTopic(topic) != nil
}

// list lists the messages that a query selects: live or ended in the order of their due time, or without a journal what
// the store has of them.
func (o *Ops) list(ctx context.Context, by *Caller, in *List) (*MessageList, error) {
	l, err := in.listing(o.Now())
	if err != nil {
		return nil, err
	}
	a, page := &MessageList{}, []record.Record(nil)
	var why message.Why
	switch {
	case in.Held != nil:
		page, why, err = o.fromGroup(ctx, *in.Held, *in.Name, l.Limit, a)
	case o.Journal != nil:
		page, err = o.fromJournal(ctx, in, &l, a)
		err = Unanswered("journal", err)
	default:
		page, err = o.fromStore(ctx, by, in, &l, a)
	}
	if err != nil {
		return nil, err
	}
	page, err = o.viewed(ctx, page, l.shown)
	a.Messages = make([]Info, len(page))
	for i := range page {
		page[i].Headers, page[i].Body = nil, nil
		a.Messages[i] = InfoOf(&page[i].Info)
		a.Messages[i].By = page[i].ChangedBy
	}
	if why.Word == "" {
		o.explain(ctx, page, a.Messages)
	} else {
		for i := range a.Messages {
			a.Messages[i].Why = why
		}
	}
	return a, err
}

// fromJournal reads a page of the journal.
func (o *Ops) fromJournal(ctx context.Context, in *List, l *listing, a *MessageList) ([]record.Record, error) {
	after, err := in.open(listMessages, l.mark)
	if err == nil && after != "" {
		_, err = fmt.Sscanf(after, "%d %s", &l.AfterDue, &l.AfterUID)
		if err != nil || !message.IsUID(string(l.AfterUID)) {
			err = badCursor(*in.Cursor)
		}
	}
	if err != nil {
		return nil, err
	}
	// The lag is read first: a change written between the two reads is then both counted and shown, rather than
	// neither.
	a.Lag = o.lag(ctx)
	page, next, err := o.page(ctx, l)
	if err != nil {
		return nil, err
	}
	if next != nil {
		a.Cursor = seal(listMessages, l.mark, fmt.Sprintf("%d %s", next.Due, next.UID))
	}
	if l.ID != "" && l.AfterUID == "" { // on the first page
		a.Rejected, err = o.Journal.Rejects(ctx, scheduler.Ref{ID: l.ID, Topic: l.Topic}, MaxList)
	}
	return page, err
}

// fromStore reads a page of what the store has: without an id nothing that has ended, but for the dead.
func (o *Ops) fromStore(ctx context.Context, by *Caller, in *List, l *listing, a *MessageList) ([]record.Record,
	error) {
	after, err := in.open(listStored, l.mark)
	if err != nil {
		return nil, err
	}
	a.Order, a.Looked = "bucket", &WhyPlace{Place: "store", Whole: true}
	q := scheduler.Listing{Selection: scheduler.Selection{Topic: cmp.Or(l.Topic, l.pattern), Key: l.Key,
		HasKey: l.Key != "", From: l.DueFrom, To: l.DueTo}}
	for _, state := range l.shown {
		switch {
		case !state.Kept() && l.ID == "":
			return nil, Refuse(http.StatusNotImplemented, WordNeedsJournal,
				"the journal is off, so what is %s is not listed; this needs journal.mode async or sync, or an id", state)
		case state == message.StateReady:
			state = message.StateWaiting
		}
		q.States = append(q.States, state)
	}
	var found []message.Info
	if l.ID == "" {
		var part stored
		if part, err = o.listed(ctx, q, after, l.Limit, listMost); errors.Is(err, scheduler.ErrBadCursor) {
			err = badCursor(*in.Cursor)
		}
		found, a.Looked.Read = part.found, part.read
		a.Looked.Whole, a.Cursor = part.next == "" && after == "", seal(listStored, l.mark, part.next)
	} else {
		found, err = o.lives(ctx, by, &q, l.ID)
		a.Looked.Read = len(found)
	}
	page := make([]record.Record, len(found))
	for i := range found {
		page[i].Info = found[i]
	}
	return page, err
}

// fromGroup reads what a group of /v1/held holds back, what fell due first first, and why. It has one page.
func (o *Ops) fromGroup(ctx context.Context, word, name string, limit int, a *MessageList) (page []record.Record,
	why message.Why, err error) {
	held, err := o.held(ctx, nil, nil)
	if err != nil {
		return nil, why, err
	}
	a.Looked = &WhyPlace{Place: "store", Whole: !held.More}
	at := slices.IndexFunc(held.Groups, func(g scheduler.HeldGroup) bool {
		return string(g.Word) == word && g.Name == name
	})
	if at < 0 {
		return nil, why, nil
	}
	group := held.Groups[at]
	q := scheduler.Listing{Lane: group.Lane, States: []message.State{message.StateWaiting}}
	if group.Lane == "" { // what consumers pull
		q.Pull, q.Topic, q.To = true, name, message.CeilMilli(o.Now())
	}
	type key struct{ word, name string }
	read := func(ctx context.Context) (stored, error) { return o.listed(ctx, q, "", groupMost, groupMost) }
	all, err := o.waits.get(ctx, key{word, name}, viewsKeep, o.Timeout, read)
	a.Looked.Read, a.Looked.Whole = all.read, all.next == ""
	for i := range all.found {
		page = append(page, record.Record{Info: all.found[i]})
	}
	slices.SortFunc(page, func(x, y record.Record) int {
		return cmp.Or(cmp.Compare(x.Due, y.Due), x.UID.Compare(y.UID))
	})
	if len(page) > limit {
		page, a.Looked.Whole = page[:limit], false
	}
	return page, group.Why, err
}

// stored is a part of what the store has: those found among the first so many that were read, and where it goes on,
// which is empty at the end.
type stored struct {
	found []message.Info
	next  string
	read  int
}

// listed reads a part of what the store has, within listWithin. What it read until then is the part; where the store
// gave nothing, that is an error, since nobody could tell it from having nothing.
func (o *Ops) listed(ctx context.Context, q scheduler.Listing, cursor string, limit, most int) (s stored, err error) {
	short, stop := context.WithTimeout(ctx, listWithin)
	defer stop()
	s.found, s.next, s.read, err = o.Service.Listed(short, q, cursor, limit, most)
	if s.read > 0 && short.Err() != nil && ctx.Err() == nil {
		err = nil
	}
	return s, err
}

// lives returns the messages under an id that are selected, live or remembered.
func (o *Ops) lives(ctx context.Context, by *Caller, q *scheduler.Listing, id string) ([]message.Info, error) {
	found, uids, err := o.named(ctx, scheduler.Ref{ID: id, Viewer: by.Viewer()})
	for _, uid := range uids {
		if one, _, failed := o.named(ctx, scheduler.Ref{UID: uid, Viewer: by.Viewer()}); failed == nil {
			found = append(found, one...)
		}
	}
	if errors.Is(err, scheduler.ErrUnknownID) || errors.Is(err, scheduler.ErrRejected) {
		err = nil
	}
	return slices.DeleteFunc(found, func(i message.Info) bool {
		return q.Topic != "" && !scheduler.Matches(q.Topic, i.Topic) || q.HasKey && i.Key != q.Key ||
			i.Due < q.From || q.To != 0 && i.Due > q.To
	}), err
}

// page reads a page and returns the record after which the next page begins, or nil on the last page. It examines a
// bounded number of records, so if few match a pattern, a page may be short or empty and still have a next one.
func (o *Ops) page(ctx context.Context, l *listing) (page []record.Record, next *record.Record, err error) {
	q := l.RecordQuery
	if l.pattern == "" {
		q.Limit++ // one more shows that there is a next page
	} else {
		q.Limit = MaxList
	}
	for range maxPatternReads {
		found, err := o.Journal.List(ctx, q)
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
func (o *Ops) viewed(ctx context.Context, page []record.Record, shown []message.State) ([]record.Record, error) {
	infos := make([]*message.Info, len(page))
	for i := range page {
		infos[i] = &page[i].Info
	}
	err := o.Service.View(ctx, infos...)
	if len(shown) == 0 {
		return page, nil
	}
	return slices.DeleteFunc(page, func(r record.Record) bool { return !slices.Contains(shown, r.State) }), err
}

// explain adds the reason to overdue waiting messages. The journal does not know which lanes are held back, so explain
// asks the store; if the store does not answer, the list stays unchanged.
func (o *Ops) explain(ctx context.Context, page []record.Record, messages []Info) {
	now := message.CeilMilli(o.Now())
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
	parked, err := o.Service.ParkedTopics(ctx, slices.Compact(topics))
	if err != nil {
		return
	}
	for i := range page {
		if overdue(&page[i]) {
			messages[i].Why = parked[page[i].Topic]
		}
	}
}

// Page asks for a part of a list.
//
// A cursor is the position at which a list continues, in a form that each list defines. A mark in front of the position
// binds it to the list and its query, because with another query the cursor would silently skip messages. The mark also
// detects damage. Callers send the text back unchanged:
//
//	base64url( form (1 byte) | mark (8) | where the list continues )
//
// The limit is not part of the query. A forged cursor only shows another page of messages that the caller may see
// anyway.
type Page struct {
	Limit  *int    `json:"limit"`  // nil is DefaultList
	Cursor *string `json:"cursor"` // nil is the first page
}

func (p *Page) limit() int {
	if p.Limit == nil {
		return DefaultList
	}
	return *p.Limit
}

// parseCount reads how many of something a field asks for, from 1 to most.
func parseCount(field string, most int) func(text string) (int, error) {
	return func(text string) (int, error) {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > most {
			return 0, wire.Invalid(field, fmt.Sprintf("%s is not a whole number from 1 to %d", wire.Quote(text), most))
		}
		return n, nil
	}
}

const (
	cursorForm = 2
	cursorText = 1 + 8 // where the list's part begins
)

// The lists that have cursors.
const (
	listMessages = "messages"
	listStored   = "stored"
	listDead     = "dead"
	listTopics   = "topics"
	listLeases   = "leases"
	listRejects  = "rejects"
	listActions  = "actions"
)

// seal returns a cursor, or "" where nothing is next.
func seal(list, query, next string) string {
	if next == "" {
		return ""
	}
	b := append(make([]byte, 0, cursorText+len(next)), cursorForm)
	b = append(b, cursorMark(list, query, next)...)
	return base64.RawURLEncoding.EncodeToString(append(b, next...))
}

// open returns where a list continues, or "" for the first page.
func (p *Page) open(list, query string) (next string, err error) {
	if p.Cursor == nil {
		return "", nil
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(*p.Cursor)
	if err != nil || len(b) <= cursorText || b[0] != cursorForm {
		return "", badCursor(*p.Cursor)
	}
	if next = string(b[cursorText:]); string(b[1:cursorText]) != string(cursorMark(list, query, next)) {
		return "", Refuse(http.StatusBadRequest, WordCursor,
			"cursor belongs to another query; all but limit must stay as it was")
	}
	return next, nil
}

func badCursor(cursor string) error {
	return Refuse(http.StatusBadRequest, WordCursor, "cursor %.40q is not one from an answer", cursor)
}

func cursorMark(list, query, next string) []byte {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %q %q", list, query, next))
	return sum[:8]
}
