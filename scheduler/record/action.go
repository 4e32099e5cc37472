package record

import (
	"cmp"

	"github.com/tarry-mq/tarry/scheduler/message"
)

// Action is what an operator did. It is recorded before it is done, and once more when it has ended: one that has not
// ended runs still, or its instance died, and then nobody knows how much of it was done.
type Action struct {
	ID       string         `json:"id"`
	At       message.Milli  `json:"at"` // when it began
	Who      string         `json:"who"`
	From     string         `json:"from"` // its address
	Instance string         `json:"instance"`
	What     string         `json:"what"`
	DryRun   bool           `json:"dry_run,omitempty"`
	On       map[string]any `json:"on"` // on what, and how much of it was done
	Ended    bool           `json:"ended"`
	Problem  string         `json:"problem,omitempty"` // the word of the refusal, empty if it was done
	TookMS   int64          `json:"took_ms"`           // until it ended
}

// Compare orders actions, the last first, and records of one action with its end first.
func (a *Action) Compare(b *Action) int {
	ended := func(a *Action) int {
		if a.Ended {
			return 0
		}
		return 1
	}
	return cmp.Or(cmp.Compare(b.At, a.At), cmp.Compare(b.ID, a.ID), cmp.Compare(ended(a), ended(b)))
}

// MaxActions is how many actions a journal in SQL keeps by default, the latest.
const MaxActions = 100_000

// ActionQuery asks for actions, the last first.
type ActionQuery struct {
	Who, What string // empty for all
	// Before and BeforeID are those of the action at the end of the page before, zero for the first page.
	Before   message.Milli
	BeforeID string
	Limit    int
}

// Takes reports whether the query asks for an action.
func (q *ActionQuery) Takes(a *Action) bool {
	return (q.Who == "" || a.Who == q.Who) && (q.What == "" || a.What == q.What) &&
		(q.BeforeID == "" || (&Action{At: q.Before, ID: q.BeforeID}).Compare(a) < 0)
}
