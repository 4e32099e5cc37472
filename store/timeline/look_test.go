package timeline

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tarry-mq/tarry/deploy/lab"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/schedulertest"
)

// FindAll is Find for many uids in one pipeline. The model asks for every message after every step.
func (t *Redis) FindAll(ctx context.Context, uids []message.UID) ([][]message.Info, error) {
	calls := make([]call, len(uids))
	for i, uid := range uids {
		calls[i] = call{bucket: uid.Bucket(t.Buckets()), script: "find", args: findArgs(scheduler.Ref{UID: uid}, "")}
	}
	found := make([][]message.Info, len(uids))
	return found, cmp.Or(t.askAll(ctx, calls, func(i int, a *answer) error {
		a.text("next")
		for a.more() {
			info, err := a.found()
			a.fail("message", err)
			found[i] = append(found[i], info)
		}
		return a.done()
	}, true)...)
}

// Writes returns how many changes Redis has made since its start. It must save no snapshot, which would begin anew.
func (t *Redis) Writes(ctx context.Context) (int, error) {
	info, err := t.rdb.Info(ctx, "persistence").Result()
	if err != nil {
		return 0, err
	}
	_, text, found := strings.Cut(info, "rdb_changes_since_last_save:")
	if !found {
		return 0, fmt.Errorf("INFO tells no changes: %.300q", info)
	}
	text, _, _ = strings.Cut(text, "\r\n")
	return strconv.Atoi(text)
}

// The model takes no second look where Redis has written nothing: then what a script writes must count.
func TestWrites_CountWhatScriptsWriteAndNothingElse(t *testing.T) {
	t.Parallel()
	srv := lab.NewRedis(t, "--appendonly", "no")
	rdb := Dial(DialConfig{Addrs: []string{srv.Addr}, CallTimeout: 10 * time.Second})
	t.Cleanup(func() { _ = rdb.Close() })
	tl, err := New(Config{Client: rdb, Namespace: "writes", Buckets: 1, EndedKeep: time.Minute,
		TombstoneKeep: time.Minute, TombstoneLimit: 1})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tl.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	schedulertest.Certify(t, tl)
	m := schedulertest.Message(1)
	for _, step := range []struct {
		what   string
		do     func() error
		writes bool
	}{
		{"add", func() error { _, _, err := tl.Add(t.Context(), 0, []*message.Message{m}, 1); return err }, true},
		{"find", func() error { _, err := tl.Find(t.Context(), scheduler.Ref{UID: m.UID}); return err }, false},
		{"begin", func() error { return tl.Begin(t.Context(), 0, 1) }, true},
		{"begin again", func() error { return tl.Begin(t.Context(), 0, 1) }, false},
		{"cancel", func() error { _, err := tl.Cancel(t.Context(), scheduler.Ref{UID: m.UID}, 2); return err }, true},
	} {
		before, err := tl.Writes(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := step.do(); err != nil {
			t.Fatalf("%s: %v", step.what, err)
		}
		if after, err := tl.Writes(t.Context()); err != nil || (after > before) != step.writes {
			t.Errorf("%s: from %d writes to %d, %v", step.what, before, after, err)
		}
	}
}
