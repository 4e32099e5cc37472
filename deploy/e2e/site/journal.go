package site

import (
	"context"
	"crypto/md5"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/redis/go-redis/v9"

	"github.com/tarry-mq/tarry/deploy/lab"
)

// The states of a message as numbers in the journal.
const (
	stateWaiting   = 1
	stateDelivered = 3
	stateCanceled  = 4
)

// Pair is a site with a journal, two instances, and consumers whose arrivals the history holds.
func Pair(t *testing.T, mode string, db *lab.MariaDB, settings ...string) (s *Site, a, b *Instance, h *History) {
	t.Helper()
	s = New(t, Options{})
	s.Journal(mode, db, settings...)
	a, b = s.Start("a"), s.Start("b")
	h = NewHistory(s.Ns)
	s.Consume(h)
	s.Explain(h)
	return s, a, b, h
}

// Journal gives the site's instances, which start later, a journal in a database of its own.
func (s *Site) Journal(mode string, db *lab.MariaDB, settings ...string) {
	s.T.Helper()
	dsn := db.Database(s.T)
	s.Db, s.database = db, dsn[strings.LastIndexByte(dsn, '/')+1:]
	s.Settings = append(
		[]string{"TARRY_HTTP_BODY_LIMIT=4MiB", "TARRY_JOURNAL_MODE=" + mode, "TARRY_JOURNAL_DSN=" + dsn}, settings...)
}

// Row is a message in the journal.
type Row struct {
	uid, topic, id, key, body string // body: md5
	Seq                       int    // -1: it is none of the load's
	due                       int64
	state, version            int
	changes                   []change
}

// change is one change of it.
type change struct {
	version, state, bucket int
	at                     int64
	term, sequence         uint64
	stream, instance       string
}

// Rows reads the whole journal.
func (s *Site) Rows() map[string]*Row {
	s.T.Helper()
	found := map[string]*Row{}
	for _, f := range s.Query(
		"SELECT uid, HEX(topic), HEX(id), HEX(`key`), MD5(body), HEX(headers), due, state, version FROM messages", 9) {
		r := &Row{uid: f[0], topic: unhex(s.T, f[1]), id: unhex(s.T, f[2]), key: unhex(s.T, f[3]), body: f[4],
			Seq: seqOf(unhex(s.T, f[5])),
			due: int64(number(s.T, f[6])), state: int(number(s.T, f[7])), version: int(number(s.T, f[8]))}
		found[r.uid] = r
	}
	for _, f := range s.Query("SELECT uid, version, state, bucket, at, term, sequence, stream, instance FROM "+
		"transitions ORDER BY uid, version", 9) {
		r := found[f[0]]
		if r == nil {
			s.T.Errorf("the journal has a change of %s, but no message of that uid", f[0])
			continue
		}
		r.changes = append(r.changes,
			change{version: int(number(s.T, f[1])), state: int(number(s.T, f[2])), bucket: int(number(s.T, f[3])),
				at: int64(number(s.T, f[4])), term: number(s.T, f[5]), sequence: number(s.T, f[6]), stream: f[7],
				instance: f[8]})
	}
	return found
}

// Recorded are the Nats-Msg-Ids of what the journal has as delivered.
func (s *Site) Recorded() map[string]bool {
	s.T.Helper()
	found := map[string]bool{}
	for _, f := range s.Query(fmt.Sprintf("SELECT uid FROM messages WHERE state = %d", stateDelivered), 1) {
		found[f[0]+"@"+s.Ns] = true
	}
	return found
}

// Ask runs a statement in the journal's database and returns what it says, a line per row.
func (s *Site) Ask(statement string) (string, error) { return s.Db.SQL(s.database, statement) }

func (s *Site) Query(statement string, columns int) [][]string {
	s.T.Helper()
	out, err := s.Ask(statement)
	if err != nil {
		s.T.Fatal(err)
	}
	var rows [][]string
	for line := range strings.Lines(out) {
		f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(f) != columns {
			s.T.Fatalf("%q has %d columns", line, len(f))
		}
		rows = append(rows, f)
	}
	return rows
}

func number(t *testing.T, text string) uint64 {
	t.Helper()
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Error(err)
	}
	return n
}

func unhex(t *testing.T, text string) string {
	t.Helper()
	b, err := hex.DecodeString(text)
	if err != nil {
		t.Error(err)
	}
	return string(b)
}

// seqOf finds the harness's number among packed headers: a byte, then names and values by turns, each behind its
// length.
func seqOf(packed string) int {
	rest := []byte(packed)[min(1, len(packed)):]
	for name, i := "", 0; len(rest) > 0; i++ {
		length, n := binary.Uvarint(rest)
		if n <= 0 || int(length) > len(rest)-n {
			return -1
		}
		text := string(rest[n : n+int(length)])
		rest = rest[n+int(length):]
		switch {
		case i%2 == 0:
			name = text
		case name == SeqHeader:
			if seq, err := strconv.Atoi(text); err == nil {
				return seq
			}
		}
	}
	return -1
}

// mostBuckets is how many buckets a story has at most.
const mostBuckets = 16

// Lag counts what is in the outbox: changes, as tarry itself counts them.
func (s *Site) Lag(rdb *redis.Client) (changes, entries int64, err error) {
	for bucket := range mostBuckets {
		prefix := fmt.Sprintf("{%s:%d}:", s.Ns, bucket)
		n, err := rdb.HGet(s.T.Context(), prefix+"outboxed", "changes").Int64()
		if err != nil && !errors.Is(err, redis.Nil) {
			return 0, 0, fmt.Errorf("read the lag: %w", err)
		}
		length, err := rdb.XLen(s.T.Context(), prefix+"outbox").Result()
		if err != nil {
			return 0, 0, fmt.Errorf("read the outbox: %w", err)
		}
		changes, entries = changes+n, entries+length
	}
	return changes, entries, nil
}

// Emptied waits until nothing is in flight, since what has arrived may not have ended in Redis yet, and then until the
// outbox has drained to nothing, and its counters with it. It may hold ten thousand changes.
func (s *Site) Emptied() {
	s.T.Helper()
	rdb := s.Client()
	lab.Eventually(s.T, Patience, func() error {
		_, _, claimed, err := s.Held(s.T.Context(), rdb, time.Time{}, AnyTerm)
		if err == nil && claimed > 0 {
			err = fmt.Errorf("%d messages are claimed", claimed)
		}
		return err
	})
	lab.Eventually(s.T, PatienceForMany, func() error {
		changes, entries, err := s.Lag(rdb)
		if err == nil && (changes != 0 || entries != 0) {
			err = fmt.Errorf("%d entries stand in the outbox, %d changes are counted", entries, changes)
		}
		return err
	})
}

// Journaled waits as Emptied does, then holds the journal against what happened:
// every acknowledged push has one row as it was pushed, whose state is its end; no change of a message is left out; no
// term falls.
func (s *Site) Journaled(h *History) {
	s.T.Helper()
	s.Emptied()
	rows := s.Rows()
	Report(s.T, compare(h.Snapshot(), rows))
	changes := 0
	for _, r := range rows {
		changes += len(r.changes)
	}
	s.T.Logf("journal: %d messages, %d changes", len(rows), changes)
}

// The rules of compare.
const (
	ruleUnwritten = "not in the journal"
	ruleTwice     = "in the journal twice"
	ruleContent   = "changed in the journal"
	ruleEnd       = "wrong end in the journal"
	ruleGap       = "a gap among the versions"
	ruleFell      = "a term fell"
	rulePlace     = "wrong place of a delivery"
)

// compare holds the rows of a journal that has everything against a history.
func compare(h *History, rows map[string]*Row) []Violation {
	c := checker{h: h, by: map[int][]Arrival{}, once: map[string]int{}}
	for _, a := range h.Arrivals {
		c.by[a.Seq] = append(c.by[a.Seq], a)
	}
	bySeq := map[int][]*Row{}
	for _, r := range rows {
		bySeq[r.Seq] = append(bySeq[r.Seq], r)
		c.versions(r)
	}
	words := map[int]string{}
	for _, k := range h.canceled {
		words[k.Seq] = k.Word
	}
	for seq, s := range h.Sent {
		mine := bySeq[seq]
		switch {
		case len(mine) > 1:
			c.fail(ruleTwice, seq, "as %s and as %s", mine[0].uid, mine[1].uid)
		case len(mine) == 1:
			c.row(s, mine[0], words[seq])
		case s.Kept || len(c.by[seq]) > 0 && !h.outrunLocked(s):
			c.fail(ruleUnwritten, seq, "uid %q, due %s, acknowledged %v, seen %d times", s.Uid, Stamp(s.NotBefore),
				s.Kept, len(c.by[seq]))
		}
	}
	c.fallen(rows)
	return c.found
}

// row compares one message with its row.
func (c *checker) row(s *Sent, r *Row, word string) {
	sum := md5.Sum(s.Body)
	if r.topic != s.subject || r.id != s.Id || r.key != s.Key || r.body != hex.EncodeToString(sum[:]) ||
		s.Due != 0 && r.due != s.Due || s.Uid != "" && r.uid != s.Uid {
		c.fail(ruleContent, s.Seq, "%+v, pushed to %s as %q of %q, due %d, uid %q", *r, s.subject, s.Id,
			s.Key, s.Due, s.Uid)
	}
	came := c.by[s.Seq]
	switch {
	case r.state == stateDelivered && word != OkCancel:
	case r.state == stateCanceled && len(came) == 0 && word != "in_flight" && word != "already_delivered":
	// its attempts ended, and one of them may have got through
	case r.state == stateCanceled && word == "maybe_delivered":
	default:
		c.fail(ruleEnd, s.Seq, "%s is in state %d, was seen %d times, and its cancel was answered %q", r.uid, r.state,
			len(came), word)
	}
	for _, a := range came {
		uid, _ := strings.CutSuffix(a.header.Get(nats.MsgIdHdr), "@"+c.h.ns)
		if uid != r.uid && !c.h.anewLocked(s) {
			c.fail(ruleContent, s.Seq, "%s, and it was seen as %s", r.uid, uid)
		}
	}
	if last := len(r.changes) - 1; last >= 0 && r.state == stateDelivered {
		recorded := r.changes[last]
		there := len(came) == 0 // spared: nobody can know
		for _, a := range came {
			there = there || a.Stored == recorded.sequence
		}
		if !there || (recorded.stream != "") != s.stream {
			c.fail(rulePlace, s.Seq, "%s is recorded in %q at %d", r.uid, recorded.stream, recorded.sequence)
		}
	}
}

// versions: a message's changes are its versions from 1, and the last of them is its state.
func (c *checker) versions(r *Row) {
	term, first := uint64(0), 1
	if len(r.changes) > 0 && (c.h.outrunLocked(c.h.Sent[r.Seq]) || r.topic == "" && c.h.lostAfterLocked(r.changes[0].at)) {
		first = r.changes[0].version
	}
	for i, x := range r.changes {
		switch {
		case x.version != i+first:
			c.fail(ruleGap, r.Seq, "%s: version %d comes after %d: %+v", r.uid, x.version, i+first-1, r.changes)
			return
		case x.version == 1 && x.state != stateWaiting:
			c.fail(ruleEnd, r.Seq, "%s began in state %d", r.uid, x.state)
		case x.term > 0 && x.term < term:
			c.fail(ruleFell, r.Seq, "%s: version %d is of term %d, an earlier one of term %d", r.uid,
				x.version, x.term, term)
		}
		term = max(term, x.term)
	}
	if n := len(r.changes); n == 0 || n+first-1 != r.version || r.changes[n-1].state != r.state {
		c.fail(ruleGap, r.Seq, "%s has version %d and state %d, and %d changes: %+v", r.uid, r.version,
			r.state, n, r.changes)
	}
}

// clockSlack is how far the clocks of two instances on one machine may be apart: each is the median of three that it
// read.
const clockSlack = 20 // ms

// fallen: by time, the terms of a bucket never fall.
func (c *checker) fallen(rows map[string]*Row) {
	byBucket := map[int][]change{}
	for _, r := range rows {
		for _, x := range r.changes {
			if x.term > 0 {
				byBucket[x.bucket] = append(byBucket[x.bucket], x)
			}
		}
	}
	for bucket, all := range byBucket {
		slices.SortFunc(all, func(a, b change) int { return int(a.at - b.at) })
		begun := map[uint64]int64{} // term → its first change
		highest := uint64(0)
		for _, x := range all {
			if begun[x.term] == 0 {
				begun[x.term] = x.at
			}
			if x.term < highest && x.at > begun[highest]+clockSlack {
				c.fail(ruleFell, -1, "bucket %d: a change of term %d at %s, %d ms after the first of term %d",
					bucket, x.term,
					Stamp(time.UnixMilli(x.at)), x.at-begun[highest], highest)
			}
			highest = max(highest, x.term)
		}
	}
}

// Explain shows, when the test has failed, what the journal has of a few missing messages.
func (s *Site) Explain(h *History) {
	s.T.Cleanup(func() {
		if !s.T.Failed() || !s.Db.Running() {
			return
		}
		bySeq := map[int]*Row{}
		for _, r := range s.Rows() {
			bySeq[r.Seq] = r
		}
		h.Mu.Lock()
		defer h.Mu.Unlock()
		spared := h.sparedLocked()
		shown := 0
		for seq, m := range h.Sent {
			if m.Kept && !h.seen[seq] && !spared[seq] && shown < 5 {
				shown++
				s.T.Logf("message %d, due %s, uid %q, is missing; the journal has %+v; redis has %s", seq,
					Stamp(m.NotBefore), m.Uid, bySeq[seq], s.stands(bySeq[seq]))
			}
		}
	})
}

// stands returns where a message is in Redis.
func (s *Site) stands(r *Row) string {
	if r == nil || !s.Redis.Running() {
		return "?"
	}
	ctx, stop := context.WithTimeout(context.Background(), time.Second)
	defer stop()
	rdb := redis.NewClient(&redis.Options{Addr: s.Redis.Addr, Password: RedisPassword})
	defer rdb.Close()
	for bucket := range mostBuckets {
		prefix := fmt.Sprintf("{%s:%d}:", s.Ns, bucket)
		if there, err := rdb.HExists(ctx, prefix+"msg", r.uid).Result(); err == nil && there {
			return fmt.Sprintf("it in bucket %d: due %v, claimed %q, mark %q, lanes %v, gen %q", bucket,
				rdb.ZScore(ctx, prefix+"due", r.uid).Val(),
				rdb.HGet(ctx, prefix+"claimed", r.uid).Val(), rdb.HGet(ctx, prefix+"mark", r.uid).Val(),
				rdb.SMembers(ctx, prefix+"lanes").Val(), rdb.Get(ctx, prefix+"gen").Val())
		}
	}
	return "nothing of it"
}
