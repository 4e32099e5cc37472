package e2e_test

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tarry-mq/tarry/deploy/e2e/site"
	"github.com/tarry-mq/tarry/deploy/lab"
)

// A single machine's tarry with a directory of its own: killed with messages waiting, it delivers all of them all the
// same.
func TestDevWithADirectoryKeepsWhatWaitsWhenItIsKilled(t *testing.T) {
	t.Parallel()
	d := site.StartDev(t, "kept", "--data", t.TempDir())
	d.Ready(t)
	nc, err := nats.Connect("nats://"+d.Nats, nats.MaxReconnects(-1), nats.ReconnectWait(20*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js := site.OpenJetStream(t, nc)
	if _, err := js.CreateStream(
		t.Context(), jetstream.StreamConfig{Name: "KEEP", Subjects: []string{"keep.>"}}); err != nil {
		t.Fatal(err)
	}

	if a, err := d.Sure(t.Context(), http.MethodPost, "/v1/topics/keep.held/pause", nil, site.Slow...); err != nil ||
		a.Status != http.StatusOK {
		t.Fatalf("pause: %d %s %v", a.Status, a.Raw, err)
	}
	if a, err := d.Sure(t.Context(), http.MethodPost, "/v1/messages",
		map[string]any{"topic": "keep.held", "delay": "1s", "body": "held"}, site.Slow...); err != nil ||
		a.Status != http.StatusCreated {
		t.Fatalf("push: %d %s %v", a.Status, a.Raw, err)
	}
	// Due from now on until some seconds after it is back.
	type waiting struct {
		uid  string
		due  time.Time
		word string // of its cancel
	}
	pushed := make([]waiting, 25)
	canceled := func(i int) bool { return i >= 12 && i%3 == 2 } // four of them
	// All at once, so that they share commits: one by one, a slow disk takes longer than the first ones wait.
	var producers sync.WaitGroup
	first := time.Now().Add(3 * time.Second).Truncate(time.Millisecond)
	for i := range pushed {
		producers.Go(func() {
			w := &pushed[i]
			w.due = first.Add(time.Duration(i) * 320 * time.Millisecond)
			a, err := d.Sure(t.Context(), http.MethodPost, "/v1/messages",
				map[string]any{"topic": fmt.Sprintf("keep.row%d", i%5), "at": w.due.UnixMilli(),
					"id": fmt.Sprintf("kept %d", i), "body": fmt.Sprintf("body %d", i),
					"headers": map[string]string{site.SeqHeader: strconv.Itoa(i)}}, site.Slow...)
			if err != nil || a.Status != http.StatusCreated || !strings.Contains(a.Raw, `"durable":"journal"`) {
				t.Errorf("push: %d %s %v", a.Status, a.Raw, err)
				return
			}
			w.uid = a.UID
			if !canceled(i) {
				return
			}
			a, err = d.Sure(t.Context(), http.MethodDelete, "/v1/messages/"+w.uid, nil, site.Slow...)
			if err != nil || a.State != "canceled" {
				t.Errorf("cancel: %d %s %v", a.Status, a.Raw, err)
			}
			w.word = site.OkCancel
		})
	}
	producers.Wait()
	if t.Failed() {
		return
	}
	stream, err := js.Stream(t.Context(), "KEEP")
	if err != nil {
		t.Fatal(err)
	}
	stored := func() uint64 {
		info, err := stream.Info(t.Context())
		if err != nil {
			return 0
		}
		return info.State.Msgs
	}
	lab.Eventually(t, site.Patience, func() error {
		if n := stored(); n < 5 {
			return fmt.Errorf("%d messages are delivered", n)
		}
		return nil
	})
	d.Kill()
	killed := time.Now()
	site.Pause(t.Context(), 2*time.Second) // some fall due
	d.Restart()
	d.Ready(t)
	back := time.Now()
	lab.Eventually(t, site.Patience, func() error {
		if n := stored(); n < 21 {
			return fmt.Errorf("%d of 21 messages are delivered", n)
		}
		return nil
	})
	for i := range pushed { // and it still knows what was canceled
		if !canceled(i) {
			continue
		}
		if a, err := d.Sure(t.Context(), http.MethodDelete, "/v1/messages/"+pushed[i].uid, nil, site.Slow...); err != nil ||
			a.State != "canceled" {
			t.Errorf("cancel again: %d %s %v", a.Status, a.Raw, err)
		}
	}

	if n := stored(); n != 21 { // what was paused is held back still
		t.Errorf("%d messages are delivered, want 21", n)
	}
	if a, err := d.Sure(t.Context(), http.MethodPost, "/v1/topics/keep.held/resume", nil, site.Slow...); err != nil ||
		a.Status != http.StatusOK {
		t.Fatalf("resume: %d %s %v", a.Status, a.Raw, err)
	}
	lab.Eventually(t, site.Patience, func() error {
		if n := stored(); n != 22 {
			return fmt.Errorf("%d messages are delivered, want 22", n)
		}
		return nil
	})

	auditor, err := js.OrderedConsumer(t.Context(), "KEEP", jetstream.OrderedConsumerConfig{
		FilterSubjects: []string{"keep.row0", "keep.row1", "keep.row2", "keep.row3", "keep.row4"}})
	if err != nil {
		t.Fatal(err)
	}
	batch, err := auditor.Fetch(int(stored())-1, jetstream.FetchMaxWait(site.Patience))
	if err != nil {
		t.Fatal(err)
	}
	came := map[int]int{}
	overdue, late := 0, time.Duration(0)
	for m := range batch.Messages() {
		meta, err := m.Metadata()
		if err != nil {
			t.Fatal(err)
		}
		i, err := strconv.Atoi(m.Headers().Get(site.SeqHeader))
		if err != nil || i < 0 || i >= len(pushed) {
			t.Errorf("nobody pushed %q %v", m.Data(), m.Headers())
			continue
		}
		w := pushed[i]
		came[i]++
		if string(m.Data()) != fmt.Sprintf("body %d", i) || m.Headers().Get("Tarry-Id") != fmt.Sprintf("kept %d", i) ||
			!strings.HasPrefix(m.Headers().Get(nats.MsgIdHdr), w.uid) {
			t.Errorf("got %q %v", m.Data(), m.Headers())
		}
		latest := w.due
		if w.due.After(killed.Add(-time.Second)) && w.due.Before(back) {
			latest = back
			overdue++
		}
		if early := w.due.Sub(meta.Timestamp); early > 0 {
			t.Errorf("message %d came %s early", i, early)
		}
		late = max(late, meta.Timestamp.Sub(latest))
	}
	for i, w := range pushed {
		if w.word == "" && came[i] != 1 || w.word == site.OkCancel && came[i] > 0 {
			t.Errorf("message %d came %d times; its cancel was answered %q", i, came[i], w.word)
		}
	}
	if overdue < 5 || late > 2*time.Second {
		t.Errorf("%d messages fell due while it was down; one came %s late", overdue, late)
	}
	t.Logf("back after %s, %d messages were overdue, the latest came %s after it could",
		back.Sub(killed).Round(time.Millisecond), overdue, late)
}
