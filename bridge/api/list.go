package api

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/tarry-mq/tarry/bridge/answer"
	"github.com/tarry-mq/tarry/bridge/wire"
	"github.com/tarry-mq/tarry/scheduler"
)

const (
	defaultList = 100
	maxList     = 1000
)

// listAnswer is a page of messages, without headers and bodies. Cursor asks for the next page; the last page has none. Lag
// is what the page may miss.
type listAnswer struct {
	Messages []wire.Info `json:"messages"`
	Cursor   string      `json:"cursor,omitempty"`
	Lag      *lagAnswer  `json:"lag,omitempty"`
}

// list shows the messages that a query selects, live or ended, in the order of due.
func (s *Server) list(w http.ResponseWriter, r *http.Request) error {
	q, err := listQuery(r)
	if err != nil {
		return err
	}
	limit := q.Limit
	q.Limit++ // one more tells whether there is a next page
	var a listAnswer
	err = s.ask(r, func(ctx context.Context) error {
		// The lag first: what is written between the two is counted and shown, not missed and not counted.
		a.Lag = s.lag(ctx)
		page, err := s.cfg.Journal.List(ctx, q)
		if err != nil {
			return err
		}
		if len(page) > limit {
			page = page[:limit]
			a.Cursor = cursorAfter(q, &page[limit-1])
		}
		a.Messages = make([]wire.Info, len(page))
		for i := range page {
			page[i].Headers, page[i].Body = nil, nil
			a.Messages[i] = answer.Info(&page[i].Info)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return s.respondValue(w, http.StatusOK, a)
}

// listQuery reads ?topic=&key=&state=&due_from=&due_to=&limit=&cursor=. What is left out selects all.
func listQuery(r *http.Request) (scheduler.RecordQuery, error) {
	q := scheduler.RecordQuery{Limit: defaultList}
	values, err := query(r, "topic", "key", "state", "due_from", "due_to", "limit", "cursor")
	p := params{values, err}
	p.read("topic", func(text string) error { q.Topic = text; return wire.CheckOneTopic(text) })
	p.read("key", func(text string) error { q.Key = text; return wire.CheckKey(text) })
	p.read("state", func(text string) (err error) { q.States, err = states(text); return err })
	p.read("due_from", func(text string) (err error) { q.DueFrom, err = dueBound(text, "due_from"); return err })
	p.read("due_to", func(text string) (err error) { q.DueTo, err = dueBound(text, "due_to"); return err })
	p.read("limit", func(text string) (err error) {
		if q.Limit, err = strconv.Atoi(text); err != nil || q.Limit < 1 || q.Limit > maxList {
			return refusal(http.StatusBadRequest, WordLimit, "limit %.40q is not a whole number from 1 to %d", text, maxList)
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
			return nil, refusal(http.StatusBadRequest, WordState, "state %.40q is none; there are %s, several are joined by commas",
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
func dueBound(text, name string) (scheduler.Milli, error) {
	at, err := wire.ParseTime(text, name)
	if err != nil {
		return 0, err
	}
	if ms := scheduler.CeilMilli(at); ms != 0 {
		return ms, nil
	}
	return -1, nil
}
