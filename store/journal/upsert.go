package journal

import (
	"fmt"
	"strings"

	"github.com/tarry-mq/tarry/scheduler"
)

// upsert is an insert of rows that says what becomes of a row that is there.
type upsert struct {
	into    string // table and columns
	row     string // the values of one row
	updates string
}

// statement is the text for n rows.
func (u *upsert) statement(n int) string {
	var b strings.Builder
	b.Grow(len(u.into) + len(u.updates) + n*(len(u.row)+2) + 16)
	b.WriteString("INSERT INTO " + u.into + " VALUES ")
	for i := range n {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(u.row)
	}
	b.WriteString(u.updates)
	return b.String()
}

// The columns of messages, in the order in which contentValues and stateValues
// give their values. The last of each set guards it.
var (
	contentColumns = []string{"topic", "id", "`key`", "headers", "body", "size", "priority", "ttl", "attempt",
		"digest", "content"}
	stateColumns = []string{"due", "state", "uncertain", "refusals", "changed", "ended", "kind", "other",
		"reason", "version"}
)

// transitionColumns are those of transitions, in the order in which writeTransitions gives their values.
var transitionColumns = []string{"uid", "version", "state", "at", "claimed", "bucket", "instance", "address", "term",
	"attempt", "reason", "stream", "sequence",
	"due", "uncertain", "refusals", "kind", "other"}

func contentValues(values []any, c *scheduler.Change) []any {
	m := c.Message
	return append(values, name(m.Topic), name(m.ID), name(m.Key), packContent(m), blob(m.Body),
		int64(len(m.Body)+headersSize(m.Headers)),
		int64(m.Priority), millis(m.TTL), int64(m.Attempt), m.Digest[:], number(c.Version))
}

func stateValues(values []any, c *scheduler.Change) []any {
	return append(values, int64(c.Due), int64(c.State), bit(c.Uncertain), int64(c.Refusals), int64(c.At), endedAt(c),
		unlessZero(int64(c.Kind)), unlessEmpty(string(c.Other)), text(c.Reason, reasonBytes), number(c.Version))
}

// contentBytes is how many bytes contentValues has in texts and blobs, at most.
func contentBytes(m *scheduler.Message) int {
	return len(m.Topic) + len(m.ID) + len(m.Key) + packedBytes(m.Headers) + len(m.Body) + len(m.Digest)
}

// upserts are the three statements of a write.
type upserts struct {
	whole, state, transition upsert
}

func newUpserts(d *dialect) *upserts {
	guard := func(columns []string) string {
		last := columns[len(columns)-1]
		var b strings.Builder
		// MySQL assigns from left to right and reads what it has assigned, so the
		// guard itself comes last.
		for _, column := range columns[:len(columns)-1] {
			fmt.Fprintf(&b, "%s = CASE WHEN %s > messages.%s THEN %s ELSE messages.%s END, ", column, d.incoming(last),
				last, d.incoming(column), column)
		}
		fmt.Fprintf(&b, "%s = %s(messages.%s, %s)", last, d.greatest, last, d.incoming(last))
		return b.String()
	}
	content, state := strings.Join(contentColumns, ", "), strings.Join(stateColumns, ", ")
	nContent, nState := len(contentColumns), len(stateColumns)
	return &upserts{
		whole: upsert{
			into:    "messages (uid, accepted, " + content + ", " + state + ")",
			row:     "(" + questions(2+nContent+nState) + ")",
			updates: d.conflict + guard(contentColumns) + ", " + guard(stateColumns),
		},
		// Where the row is missing it begins without content; MySQL has no default for blobs.
		state: upsert{
			into:    "messages (uid, accepted, headers, body, " + state + ")",
			row:     "(?, ?, x'', x'', " + questions(nState) + ")",
			updates: d.conflict + guard(stateColumns),
		},
		// A change is written once; IGNORE would also hide what was cut.
		transition: upsert{
			into:    "transitions (" + strings.Join(transitionColumns, ", ") + ")",
			row:     "(" + questions(len(transitionColumns)) + ")",
			updates: d.conflict + "uid = transitions.uid",
		},
	}
}
