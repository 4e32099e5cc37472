package api

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tarry-mq/tarry/bridge/answer"
	"github.com/tarry-mq/tarry/bridge/wire"
	"github.com/tarry-mq/tarry/scheduler"
)

const (
	defaultList = 100
	maxList     = 1000
	// maxPatternReads is how many pages of the journal one page of a pattern looks at.
	maxPatternReads = 20
)

// listAnswer is a page of messages, without headers and bodies. Cursor asks for the next page; the last page has none.
// Lag is what the page may miss.
type listAnswer struct {
	Messages []wire.Info `json:"messages"`
	Cursor   string      `json:"cursor,omitempty"`
	Lag      *lagAnswer  `json:"lag,omitempty"`
}

// listing is what a list asks for.
type listing struct {
	scheduler.RecordQuery
	// pattern selects topics where it has a wildcard, which the journal has no index for; else empty.
	pattern string
	// from and to are the bounds of due as they were given: "2h" is another moment on the next page, and the same
	// query.
	from, to string
}

// takes reports whether a record that the journal selected is wanted.
func (l *listing) takes(r *scheduler.Record) bool {
	return l.pattern == "" || scheduler.Matches(l.pattern, r.Topic)
}

// list shows the messages that a query selects, live or ended, in the order of due.
func (s *Server) list(w http.ResponseWriter, r *http.Request) error {
	l, err := listQuery(r, s.cfg.Now())
	if err != nil {
		return err
	}
	var a listAnswer
	err = s.ask(r, func(ctx context.Context) error {
		// The lag first: what is written between the two is counted and shown, not missed and not counted.
		a.Lag = s.lag(ctx)
		page, next, err := s.page(ctx, &l)
		if err != nil {
			return err
		}
		if next != nil {
			a.Cursor = cursorAfter(&l, next)
		}
		a.Messages = make([]wire.Info, len(page))
		for i := range page {
			page[i].Headers, page[i].Body = nil, nil
			a.Messages[i] = answer.Info(&page[i].Info)
		}
		s.explain(ctx, page, a.Messages)
		return nil
	})
	if err != nil {
		return err
	}
	return s.respondValue(w, http.StatusOK, a)
}

// page reads a page, and returns the record behind which the next one begins, nil where there is none. Where few match
// a pattern it may be short, or empty, and go on: it looks at a bounded number of records.
func (s *Server) page(ctx context.Context, l *listing) (page []scheduler.Record, next *scheduler.Record, err error) {
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
			if len(page) == l.Limit { // what comes after the last one of the page
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

// explain says of messages that are overdue and wait why they do. The journal does not know what is held back, so that
// the store is asked; where it does not answer the list stays as it is.
func (s *Server) explain(ctx context.Context, page []scheduler.Record, messages []wire.Info) {
	now := scheduler.CeilMilli(s.cfg.Now())
	overdue := func(r *scheduler.Record) bool { return r.State == scheduler.StateWaiting && r.Due < now }
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
			messages[i].ParkedWhy = parked[page[i].Topic]
		}
	}
}

// listQuery reads ?topic=&id=&key=&state=&due_from=&due_to=&limit=&cursor=. What is left out selects all. A topic may
// be a pattern, and a bound of due how long from now, as in cancel.
func listQuery(r *http.Request, now time.Time) (listing, error) {
	q := listing{RecordQuery: scheduler.RecordQuery{Limit: defaultList}}
	values, err := query(r, "topic", "id", "key", "state", "due_from", "due_to", "limit", "cursor")
	p := params{values, err}
	p.read("topic", func(text string) error {
		if q.Topic = text; isPattern(text) {
			q.Topic, q.pattern = "", text
		}
		return wire.CheckPattern(text)
	})
	p.read("id", func(text string) error {
		if q.ID = text; scheduler.IsUID(text) {
			return refusal(http.StatusBadRequest, wire.WordID,
				"id %s is a uid, which names one message: look it up by itself", text)
		}
		return wire.CheckID(text)
	})
	p.read("key", func(text string) error { q.Key = text; return wire.CheckKey(text) })
	p.read("state", func(text string) (err error) { q.States, err = states(text); return err })
	p.read("due_from", func(text string) (err error) {
		q.from = text
		q.DueFrom, err = dueBound(text, "due_from", now)
		return err
	})
	p.read("due_to", func(text string) (err error) {
		q.to = text
		q.DueTo, err = dueBound(text, "due_to", now)
		return err
	})
	p.read("limit", func(text string) (err error) {
		if q.Limit, err = strconv.Atoi(text); err != nil || q.Limit < 1 || q.Limit > maxList {
			return refusal(http.StatusBadRequest, WordLimit, "limit %.40q is not a whole number from 1 to %d",
				text, maxList)
		}
		return nil
	})
	if p.err == nil && q.DueFrom != 0 && q.DueTo != 0 && q.DueFrom > q.DueTo {
		p.err = refusal(http.StatusBadRequest, WordDueFrom, "due_from lies after due_to")
	}
	p.read("cursor", func(text string) error { return goOn(&q, text) }) // last: it is held against the rest
	return q, p.err
}

// states reads a list of states.
func states(text string) (found []scheduler.State, err error) {
	for word := range strings.SplitSeq(text, ",") {
		i := slices.Index(stateWords(), word)
		if i < 0 {
			return nil, refusal(http.StatusBadRequest, WordState,
				"state %.40q is none; there are %s, several are joined by commas",
				word, strings.Join(stateWords(), ", "))
		}
		found = append(found, scheduler.StateWaiting+scheduler.State(i))
	}
	slices.Sort(found)
	return slices.Compact(found), nil
}

// stateWords are the states that a message can be in.
func stateWords() (words []string) {
	for s := scheduler.StateWaiting; s <= scheduler.StateDead; s++ {
		words = append(words, s.String())
	}
	return words
}

// dueBound reads a bound of due. The first moment of 1970 would be no bound: the one before it stands for it.
func dueBound(text, name string, now time.Time) (scheduler.Milli, error) {
	when, err := wire.ParseWhen(text, name)
	if err != nil {
		return 0, err
	}
	if ms := scheduler.CeilMilli(when.Ahead(now)); ms != 0 {
		return ms, nil
	}
	return -1, nil
}

// isPattern reports whether a topic is none, but a pattern of some.
func isPattern(topic string) bool {
	return strings.ContainsAny(topic, "*>") && wire.CheckOneTopic(topic) != nil
}
