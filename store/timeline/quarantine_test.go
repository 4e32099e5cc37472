package timeline_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tarry-mq/tarry/deploy/lab"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/record"
)

// damage puts one damaged entry at the head of the outbox, in place of the first.
func (b *bare) damage(change func(fields []string) []string) {
	b.Helper()
	ctx, key := b.Context(), b.key("outbox")
	all, err := b.rdb.Do(ctx, "XRANGE", key, "-", "+").Slice()
	b.must(err)
	b.must(b.rdb.XTrimMaxLen(ctx, key, 0).Err())
	for i, one := range all {
		var fields []string
		for _, f := range one.([]any)[1].([]any) {
			fields = append(fields, f.(string))
		}
		if i == 0 {
			fields = change(slices.Clone(fields))
		}
		args := []any{"XADD", key, "*"}
		for _, f := range fields {
			args = append(args, f)
		}
		b.must(b.rdb.Do(ctx, args...).Err())
	}
}

// A damaged entry at the head of the outbox stops no script, and is quarantined with the messages that it named.
func TestOutbox_GoesOnPastADamagedEntry(t *testing.T) {
	t.Parallel()
	srv := lab.SharedRedis(t)
	// The head is the entry of two messages' end: c, z and e.
	for name, damage := range map[string]struct {
		change func(f []string) []string
		dark   bool // it names nobody
	}{
		"no size":    {change: func(f []string) []string { return slices.Delete(f, 2, 4) }},
		"no context": {change: func(f []string) []string { return slices.Delete(f, 0, 2) }},
		"no changes": {
			change: func(f []string) []string { return append(f[:4], "t-00", "x") }, dark: true},
		"nothing that is known": {change: func([]string) []string { return []string{"", ""} }, dark: true},
		"an empty context":      {change: func(f []string) []string { f[1] = ""; return f }},
		"a cut context":         {change: func(f []string) []string { f[1] = f[1][:5]; return f }},
		"a context of text": {change: func(f []string) []string {
			f[1] = strings.Repeat("~", len(f[1]))
			return f
		}},
		"a later context":       {change: func(f []string) []string { f[1] = "\x63" + f[1][1:]; return f }},
		"a time that cannot be": {change: func(f []string) []string { f[1] = "\x01\x7f" + f[1][2:]; return f }},
		"an empty size":         {change: func(f []string) []string { f[3] = ""; return f }},
		"a size that is none":   {change: func(f []string) []string { f[3] = "many few"; return f }},
		"a size beyond all": {change: func(f []string) []string {
			f[3] = strings.Repeat("9", 40) + " 1"
			return f
		}},
		"a size that is too much": {change: func(f []string) []string {
			f[1], f[3] = "", "99999999 99999999"
			return f
		}},
		"empty changes":  {change: func(f []string) []string { return append(f[:4], "e", "", f[5], f[5]) }},
		"cut changes":    {change: func(f []string) []string { f[5] = f[5][:len(f[5])-3]; return f }},
		"a changed name": {change: func(f []string) []string { f[4] = "E"; return f }},
		"a longer one": {change: func(f []string) []string {
			return append(f, "more", strings.Repeat("x", 300<<10))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := openBare(t, srv)
			gone := []*message.Message{b.message(nil), b.message(nil)}
			b.add(gone...)
			b.drop()
			b.must(b.Begin(t.Context(), 0, 1))
			b.finish(message.StateDelivered, b.claim(2)...)
			left := b.message(func(m *message.Message) { m.Due = 1 << 41 })
			b.add(left)
			b.damage(damage.change)

			after := message.Milli(20).Add(time.Hour)
			if n, err := b.Trim(t.Context(), 0, 1, after, 10); err != nil || n != 0 {
				t.Fatalf("trim forgot %d, %v", n, err)
			}
			lags, err := b.Lags(t.Context())
			if err != nil || lags[0].Entries != 2 || lags[0].Oldest == 0 || lags[0].Quarantined != 0 {
				t.Fatalf("lag %+v, %v", lags, err)
			}
			entries, err := b.Unwritten(t.Context(), 0, "", 0, 10, 1<<30)
			if err != nil || len(entries) != 2 || entries[1].Damaged != nil || entries[1].Changes[0].UID != left.UID {
				t.Fatalf("unwritten: %+v, %v", entries, err)
			}
			bad := entries[0]
			var named []message.UID
			for _, c := range bad.Changes {
				if c.Version != 0 || c.At == 0 || c.State != message.StateNone {
					t.Fatalf("a damaged entry has %+v", c)
				}
				named = append(named, c.UID)
			}
			want := []message.UID{gone[0].UID, gone[1].UID}
			if damage.dark {
				want = nil
			}
			if bad.Damaged == nil || !slices.Equal(named, want) {
				t.Fatalf("damaged for %v, it names %v, want %v", bad.Damaged, named, want)
			}
			q := record.Quarantined{Number: bad.Number, ID: bad.ID, At: 77, Reason: "so it is",
				UIDs: named, Known: true}
			for range 2 {
				b.must(b.Quarantine(t.Context(), q))
			}
			q.Number = 0
			list, _, err := b.Quarantined(t.Context(), 0, "")
			if err != nil || len(list) != 1 || fmt.Sprint(list[0]) != fmt.Sprint(q) {
				t.Fatalf("quarantined are %+v, %v", list, err)
			}
			raw, err := b.rdb.XRange(t.Context(), b.key("quarantine"), "-", "+").Result()
			if err != nil || len(raw) != 1 || size(raw[0]) > 70<<10 {
				t.Fatalf("kept are %d entries, %v", len(raw), err)
			}
			lags, err = b.Lags(t.Context())
			if l := lags[0]; err != nil || l.Entries != 1 || l.Quarantined != 1 || l.Bytes < 0 || l.Changes < 0 {
				t.Fatalf("lag %+v, %v", lags, err)
			}
			b.must(b.Written(t.Context(), 0, entries[1:]))
			if lags, err = b.Lags(t.Context()); err != nil || lags[0] != (record.Lag{Quarantined: 1}) {
				t.Fatalf("lag %+v, %v", lags, err)
			}
			if n, err := b.Trim(t.Context(), 0, 1, after, 10); err != nil || n != 2 {
				t.Fatalf("trim forgot %d, %v", n, err)
			}
		})
	}
}

func size(m redis.XMessage) (n int) {
	for name, value := range m.Values {
		n += len(name) + len(value.(string))
	}
	return n
}

// A quarantined entry that an operator damages hides none of the others.
func TestQuarantined_ShowsWhatItCannotRead(t *testing.T) {
	t.Parallel()
	b := openBare(t, lab.SharedRedis(t))
	b.add(b.message(nil))
	b.must(b.rdb.Do(t.Context(), "XADD", b.key("quarantine"), "*", "by", "hand").Err())
	list, _, err := b.Quarantined(t.Context(), 0, "")
	if err != nil || len(list) != 1 || list[0].Known || list[0].Reason == "" {
		t.Fatalf("quarantined are %+v, %v", list, err)
	}
}

// A caller that reads on after a deleted entry misses none of the entries that came since.
func TestQuarantined_BeginsAgainWhereItsPlaceIsGone(t *testing.T) {
	t.Parallel()
	b := openBare(t, lab.SharedRedis(t))
	b.add(b.message(nil), b.message(nil))
	entries, err := b.Unwritten(t.Context(), 0, "", 0, 10, 1<<30)
	b.must(err)
	q := record.Quarantined{Number: entries[0].Number, ID: entries[0].ID, Reason: "so it is"}
	b.must(b.Quarantine(t.Context(), q))
	for _, after := range []string{"", "1-1", "99999999999999-1"} {
		for range 2 {
			list, next, err := b.Quarantined(t.Context(), 0, after)
			if err != nil || len(list) != 1 || list[0].ID != q.ID {
				t.Fatalf("after %q there are %+v, %v", after, list, err)
			}
			if list, again, err := b.Quarantined(t.Context(), 0, next); err != nil || len(list) > 0 || again != next {
				t.Fatalf("behind the last there are %+v up to %q, %v", list, again, err)
			}
		}
	}
	b.must(b.rdb.Del(t.Context(), b.key("quarantine")).Err())
	if list, _, err := b.Quarantined(t.Context(), 0, "1-1"); err != nil || len(list) > 0 {
		t.Fatalf("deleted, there are %+v, %v", list, err)
	}
}

// A full Redis lets an entry go into quarantine: an entry that could not leave would fill it further.
func TestQuarantine_WorksWhereRedisIsFull(t *testing.T) {
	t.Parallel()
	b := openBare(t, lab.NewRedis(t))
	b.add(b.message(nil))
	b.must(b.rdb.ConfigSet(t.Context(), "maxmemory", "1mb").Err())
	if _, _, err := b.Add(t.Context(), 0, []*message.Message{b.message(nil)}, 10); !errors.Is(err,
		scheduler.ErrFull) {
		t.Fatalf("it is not full: %v", err)
	}
	entries, err := b.Unwritten(t.Context(), 0, "", 0, 10, 1<<30)
	b.must(err)
	b.must(
		b.Quarantine(t.Context(), record.Quarantined{ID: entries[0].ID, Number: entries[0].Number, Reason: "full"}))
	if list, _, err := b.Quarantined(t.Context(), 0, ""); err != nil || len(list) != 1 {
		t.Fatalf("quarantined are %+v, %v", list, err)
	}
}

// drop empties the outbox.
func (b *bare) drop() {
	b.Helper()
	entries, err := b.Unwritten(b.Context(), 0, "", 0, 100, 1<<30)
	b.must(err)
	b.must(b.Written(b.Context(), 0, entries))
}
