package journal

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/record"
)

// Write records changes in one transaction. Like every writer, it takes its locks in one order: fences, messages by
// uid, transitions by uid, the term.
func (s *SQL) Write(ctx context.Context, fences map[message.Bucket]uint64, changes []record.Change) error {
	var term uint64
	for i := range changes {
		if c := &changes[i]; !message.IsUID(string(c.UID)) ||
			c.Version == 0 && c.Rejected == nil {
			return fmt.Errorf("%w: version %d of %q", errRow, c.Version, c.UID)
		}
		term = max(term, changes[i].Term)
	}
	if err := s.makeFences(ctx, fences); err != nil {
		return err
	}
	changes, rejects := apart(changes)
	err := s.write.transaction(ctx, nil, func(tx *sql.Tx) error {
		if err := s.checkFences(ctx, tx, fences); err != nil {
			return err
		}
		if err := s.writeMessages(ctx, tx, fold(changes)); err != nil {
			return fmt.Errorf("write messages: %w", err)
		}
		if err := s.writeTransitions(ctx, tx, inOrder(changes)); err != nil {
			return fmt.Errorf("write transitions: %w", err)
		}
		if err := s.writeRejects(ctx, tx, rejects); err != nil {
			return fmt.Errorf("write rejects: %w", err)
		}
		if term > s.term.Load() { // else it is on record
			return s.raiseTerm(ctx, tx, term)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for old := s.term.Load(); old < term && !s.term.CompareAndSwap(old, term); old = s.term.Load() {
	}
	return nil
}

func (s *SQL) writeMessages(ctx context.Context, tx *sql.Tx, rows []folded) error {
	whole := filler{tx: tx, kind: s.kind, u: &s.upserts.whole}
	state := filler{tx: tx, kind: s.kind, u: &s.upserts.state}
	for _, r := range rows {
		f, bytes := &state, min(len(r.latest.Reason), reasonBytes)+len(r.latest.By)
		if r.content != nil {
			f, bytes = &whole, bytes+contentBytes(r.content.Message)
		}
		if err := f.begin(ctx, bytes); err != nil {
			return err
		}
		f.values = append(f.values, string(r.latest.UID), r.latest.UID.Time().UnixMilli())
		if r.content != nil {
			f.values = contentValues(f.values, r.content)
		}
		f.values = stateValues(f.values, r.latest)
	}
	if err := whole.finish(ctx); err != nil {
		return err
	}
	return state.finish(ctx)
}

func (s *SQL) writeTransitions(ctx context.Context, tx *sql.Tx, changes []*record.Change) error {
	f := filler{tx: tx, kind: s.kind, u: &s.upserts.transition}
	for _, c := range changes {
		if err := f.begin(ctx, len(c.Reason)+len(c.Instance)+len(c.Address)+len(c.Stream)+len(c.By)); err != nil {
			return err
		}
		f.values = append(f.values, string(c.UID), number(c.Version), int64(c.State), int64(c.At), int64(c.Claimed),
			int64(c.Bucket),
			name(c.Instance), name(c.Address), number(c.Term), int64(c.Attempt), text(c.Reason, reasonBytes),
			name(c.Stream), number(c.Sequence),
			unlessZero(int64(c.Due)), unlessZero(bit(c.Uncertain)), unlessZero(int64(c.Refusals)),
			unlessZero(int64(c.Kind)), unlessEmpty(string(c.Other)), unlessEmpty(name(c.By)))
	}
	return f.finish(ctx)
}

// folded is what a batch says of one message: its latest change, and its latest change with content, if any. The
// changes between them go to transitions only.
type folded struct {
	latest, content *record.Change
}

// fold reduces changes to one row for each message, in the order of their uids, so that two writers lock the same rows
// in the same order.
func fold(changes []record.Change) []folded {
	rows := make([]folded, 0, len(changes))
	place := make(map[message.UID]int, len(changes))
	for i := range changes {
		c := &changes[i]
		at, known := place[c.UID]
		if !known {
			at = len(rows)
			place[c.UID] = at
			rows = append(rows, folded{latest: c})
		}
		row := &rows[at]
		if c.Version > row.latest.Version {
			row.latest = c
		}
		if c.Message != nil && (row.content == nil || c.Version > row.content.Version) {
			row.content = c
		}
	}
	slices.SortFunc(rows, func(a, b folded) int { return cmp.Compare(a.latest.UID, b.latest.UID) })
	return rows
}

// inOrder returns the changes by uid and version, without duplicates.
func inOrder(changes []record.Change) []*record.Change {
	sorted := mapped(changes, func(c *record.Change) *record.Change { return c })
	slices.SortStableFunc(sorted, func(a, b *record.Change) int {
		return cmp.Or(cmp.Compare(a.UID, b.UID), cmp.Compare(a.Version, b.Version))
	})
	return slices.CompactFunc(sorted, func(a, b *record.Change) bool {
		return a.UID == b.UID && a.Version == b.Version
	})
}

// upsert is an insert of rows that says how to update a row that exists.
type upsert struct {
	into    string // table and columns
	row     string // the values of one row
	updates string
}

// statement returns the text for n rows.
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

// The columns of messages, in the order of the values of contentValues and stateValues. The last column of each set
// guards the set.
var (
	contentColumns = []string{"topic", "id", "`key`", "headers", "body", "size", "priority", "ttl", "attempt",
		"digest", "pull", "lease", "content"}
	stateColumns = []string{"due", "state", "uncertain", "refusals", "changed", "ended", "kind", "other", "who",
		"reason", "version"}
)

// transitionColumns are the columns of transitions, in the order of the values of writeTransitions.
var transitionColumns = []string{"uid", "version", "state", "at", "claimed", "bucket", "instance", "address", "term",
	"attempt", "reason", "stream", "sequence",
	"due", "uncertain", "refusals", "kind", "other", "who"}

func contentValues(values []any, c *record.Change) []any {
	m := c.Message
	return append(values, name(m.Topic), name(m.ID), name(m.Key), packContent(m), blob(m.Body),
		int64(m.Size()),
		int64(m.Priority), millis(m.TTL), int64(m.Attempt), m.Digest[:], bit(m.Pull)+bit(m.Serial), millis(m.Lease),
		number(c.Version))
}

func stateValues(values []any, c *record.Change) []any {
	return append(values, int64(c.Due), int64(c.State), bit(c.Uncertain), int64(c.Refusals), int64(c.At), endedAt(c),
		unlessZero(int64(c.Kind)), unlessEmpty(string(c.Other)), unlessEmpty(name(c.By)),
		text(c.Reason, reasonBytes), number(c.Version))
}

// contentBytes returns an upper bound of the bytes in the texts and blobs of contentValues.
func contentBytes(m *message.Message) int {
	return len(m.Topic) + len(m.ID) + len(m.Key) + packedBytes(m.Headers) + len(m.Body) + len(m.Digest)
}

// upserts are the statements of a write.
type upserts struct {
	whole, state, transition, reject, action upsert
}

func newUpserts(d *dialect) *upserts {
	guard := func(table string, columns []string) string {
		last := columns[len(columns)-1]
		var b strings.Builder
		// MySQL assigns from left to right and reads what it has assigned, so the guard itself comes last.
		for _, column := range columns[:len(columns)-1] {
			fmt.Fprintf(&b, "%s = CASE WHEN %s > %s.%s THEN %s ELSE %[3]s.%[1]s END, ", column, d.incoming(last), table,
				last, d.incoming(column))
		}
		fmt.Fprintf(&b, "%s = %s(%s.%[1]s, %[4]s)", last, d.greatest, table, d.incoming(last))
		return b.String()
	}
	content, state := strings.Join(contentColumns, ", "), strings.Join(stateColumns, ", ")
	nContent, nState := len(contentColumns), len(stateColumns)
	return &upserts{
		whole: upsert{
			into:    "messages (uid, accepted, " + content + ", " + state + ")",
			row:     "(" + questions(2+nContent+nState) + ")",
			updates: d.conflict + guard("messages", contentColumns) + ", " + guard("messages", stateColumns),
		},
		// If the row is missing, it starts without content; MySQL has no default for blobs.
		state: upsert{
			into:    "messages (uid, accepted, headers, body, " + state + ")",
			row:     "(?, ?, x'', x'', " + questions(nState) + ")",
			updates: d.conflict + guard("messages", stateColumns),
		},
		// A change is written once; IGNORE would also hide truncated values.
		transition: upsert{
			into:    "transitions (" + strings.Join(transitionColumns, ", ") + ")",
			row:     "(" + questions(len(transitionColumns)) + ")",
			updates: d.conflict + "uid = transitions.uid",
		},
		reject: upsert{
			into:    "rejects (" + strings.Join(rejectColumns, ", ") + ")",
			row:     "(" + questions(len(rejectColumns)) + ")",
			updates: d.conflict + "uid = rejects.uid",
		},
		action: upsert{
			into:    "actions (" + strings.Join(actionColumns, ", ") + ")",
			row:     "(" + questions(len(actionColumns)) + ")",
			updates: d.conflict + guard("actions", actionColumns[7:]), // what has ended stays so
		},
	}
}

// filler collects the rows of one upsert and sends them, as many at a time as the database accepts.
type filler struct {
	tx   *sql.Tx
	kind *dialect
	u    *upsert
	// one is the prepared statement if rows are sent one by one.
	one *sql.Stmt

	values []any
	rows   int
	bytes  int // of the next statement, an upper bound
}

// rowBytes is the size of a row without its texts and blobs.
const rowBytes = 512

// begin makes room for a row whose texts and blobs have this many bytes together. The caller appends its values.
func (f *filler) begin(ctx context.Context, bytes int) error {
	bytes = rowBytes + 2*bytes // each byte may need escaping
	if f.rows == f.kind.rows || f.rows > 0 && f.kind.bytes > 0 && f.bytes+bytes > f.kind.bytes {
		if err := f.send(ctx); err != nil {
			return err
		}
	}
	f.rows++
	f.bytes += bytes
	return nil
}

// send sends the collected rows.
func (f *filler) send(ctx context.Context) (err error) {
	if f.rows == 0 {
		return nil
	}
	if f.kind.rows == 1 {
		if f.one == nil {
			if f.one, err = f.tx.PrepareContext(ctx, f.u.statement(1)); err != nil {
				return err
			}
		}
		_, err = f.one.ExecContext(ctx, f.values...)
	} else {
		_, err = f.tx.ExecContext(ctx, f.u.statement(f.rows), f.values...)
	}
	clear(f.values)
	f.values, f.rows, f.bytes = f.values[:0], 0, 0
	return err
}

// finish sends the remaining rows.
func (f *filler) finish(ctx context.Context) error {
	err := f.send(ctx)
	if f.one != nil {
		err = errors.Join(err, f.one.Close())
	}
	return err
}

// A write locks the rows of its fences until it ends, shared with other writes; Fence changes the row and so waits for
// all of them. A missing row cannot be locked, so it is created first, with number 0.

// Fence raises a bucket's certification.
func (s *SQL) Fence(ctx context.Context, bucket message.Bucket, number uint64) error {
	_, err := s.write.ExecContext(ctx, "INSERT INTO fences (bucket, number) VALUES (?, ?)"+s.kind.conflict+
		"number = "+s.kind.greatest+"(fences.number, "+s.kind.incoming("number")+")", bucket, int64(number))
	return wrap(err, "raise the fence of bucket %d to %d", bucket, number)
}

// Fences returns the current certifications, by bucket.
func (s *SQL) Fences(ctx context.Context) (map[message.Bucket]uint64, error) {
	found, err := fences(ctx, s.read, "WHERE number > 0")
	return found, wrap(err, "read the fences")
}

// checkFences refuses changes made under a lower certification than the current one, and locks the fences that it read
// until the transaction ends.
func (s *SQL) checkFences(ctx context.Context, tx *sql.Tx, want map[message.Bucket]uint64) error {
	if len(want) == 0 {
		return nil
	}
	buckets := slices.Sorted(maps.Keys(want))
	stand, err := fences(ctx, tx, "WHERE bucket IN ("+questions(len(buckets))+") ORDER BY bucket"+s.kind.share,
		anys(buckets)...)
	if err != nil {
		return fmt.Errorf("check the fences: %w", err)
	}
	for _, b := range buckets {
		if stand[b] > want[b] {
			return fmt.Errorf("bucket %d under certification %d, and %d stands: %w", b, want[b], stand[b],
				scheduler.ErrFenced)
		}
	}
	return nil
}

// makeFences creates the rows that checkFences locks, once per process and bucket.
func (s *SQL) makeFences(ctx context.Context, want map[message.Bucket]uint64) error {
	for _, bucket := range slices.Sorted(maps.Keys(want)) {
		if _, made := s.fenced.Load(bucket); made {
			continue
		}
		if err := s.Fence(ctx, bucket, 0); err != nil {
			return err
		}
		s.fenced.Store(bucket, true)
	}
	return nil
}

func fences(ctx context.Context, from queryer, where string, args ...any) (map[message.Bucket]uint64, error) {
	found := map[message.Bucket]uint64{}
	err := each(ctx, from, "SELECT bucket, number FROM fences "+where, args, func(row scanner) error {
		var bucket message.Bucket
		var number int64
		err := row.Scan(&bucket, &number)
		found[bucket] = uint64(number)
		return err
	})
	return found, err
}

// raiseTerm records the highest term.
func (s *SQL) raiseTerm(ctx context.Context, tx *sql.Tx, term uint64) error {
	in := s.kind.incoming("value")
	_, err := tx.ExecContext(ctx, "INSERT INTO meta (name, value) VALUES ('term', ?)"+s.kind.conflict+
		"value = CASE WHEN CAST("+in+" AS DECIMAL(20)) > CAST(meta.value AS DECIMAL(20)) THEN "+in+
		" ELSE meta.value END",
		strconv.FormatUint(term, 10))
	return wrap(err, "raise the term")
}

// MaxTerm returns the highest term that any change carries, or 0.
func (s *SQL) MaxTerm(ctx context.Context) (term uint64, err error) {
	err = each(ctx, s.read, "SELECT value FROM meta WHERE name = 'term'", nil, func(row scanner) error {
		return row.Scan(&term)
	})
	return term, wrap(err, "read the term")
}
