package e2e_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tarry-mq/tarry/deploy/lab"
)

// cli runs a client command against an instance.
func (s *site) cli(i *instance, args ...string) (out string, code int) {
	s.t.Helper()
	ctx, stop := context.WithTimeout(s.t.Context(), patience)
	defer stop()
	cmd := exec.CommandContext(ctx, s.binary, append(args, "--server", "http://"+i.addr)...)
	cmd.Env = append(os.Environ(), "TARRY_TOKEN="+httpToken, "GORACE=atexit_sleep_ms=0")
	text, err := cmd.CombinedOutput()
	if exit := new(exec.ExitError); err != nil && !errors.As(err, &exit) {
		s.t.Fatal(err)
	}
	s.t.Logf("tarry %s: exit code %d: %s", strings.Join(args, " "), cmd.ProcessState.ExitCode(), text)
	return string(text), cmd.ProcessState.ExitCode()
}

// says runs a command that must end with a code and say something.
func (s *site) says(i *instance, code int, what string, args ...string) {
	s.t.Helper()
	if out, got := s.cli(i, args...); got != code || !strings.Contains(out, what) {
		s.t.Errorf("tarry %s: exit code %d, want %d and %q: %s", strings.Join(args, " "), got, code, what, out)
	}
}

// An operator's hand: what Redis has lost unnoticed is found and repaired, and what a broker has lost is delivered
// again.
func TestAnOperatorMendsWhatRedisAndNATSHaveLost(t *testing.T) {
	t.Parallel()
	s := newSite(t, siteOptions{})
	s.journal("sync", lab.SharedMariaDB(t))
	a, b := s.start("a"), s.start("b")
	js := openJetStream(t, s.connect("owner"))
	config := jetstream.StreamConfig{Name: streamName, Subjects: []string{streamSubject + ">"}}
	stream, err := js.CreateStream(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	rdb := s.client()
	lose := func(uid string) {
		t.Helper()
		n := int64(0)
		for bucket := range 4 {
			prefix := fmt.Sprintf("{%s:%d}:", s.ns, bucket)
			n += rdb.HDel(t.Context(), prefix+"msg", uid).Val() + rdb.ZRem(t.Context(), prefix+"due", uid).Val()
		}
		if n != 2 {
			t.Fatalf("%s stood in %d places", uid, n)
		}
	}
	begun := time.Now()
	due := begun.Add(20 * time.Second).Truncate(time.Millisecond)
	var uids []string
	for n := range 12 {
		uids = append(uids, s.push(a, map[string]any{"topic": fmt.Sprintf("jobs.repair%d", n%3), "at": due.UnixMilli(),
			"body": "work " + strconv.Itoa(n), "id": fmt.Sprintf("repair %d", n)}).UID)
	}
	s.says(b, 0, "the same", "verify")
	for _, uid := range uids[:4] {
		lose(uid)
	}
	s.says(b, 1, "4 missing_in_store", "verify")
	s.says(b, 0, "4 repaired", "verify", "--repair")
	s.says(a, 0, "the same", "verify")

	// A few more, by the command that restores.
	lose(uids[4])
	lose(uids[5])
	s.says(b, 0, "is restored", "restore", uids[4])
	s.says(b, 0, "1 added", "restore", "--dry-run")
	s.says(b, 1, "1 missing_in_store", "verify")
	s.says(b, 0, "1 added", "restore", "--all", "--topic", "jobs.repair2")
	s.says(a, 0, "the same", "verify")
	if t.Failed() || time.Now().After(due) {
		t.Fatalf("the commands were done %s after the messages were due", time.Since(due))
	}

	stored := func() map[string]int {
		found := map[string]int{}
		info, err := stream.Info(t.Context())
		if err != nil {
			return found
		}
		for n := info.State.FirstSeq; n <= info.State.LastSeq; n++ {
			if m, err := stream.GetMsg(t.Context(), n); err == nil {
				found[strings.TrimSuffix(m.Header.Get(nats.MsgIdHdr), "@"+s.ns)]++
			}
		}
		return found
	}
	all := func() error {
		found := stored()
		for _, uid := range uids {
			if found[uid] != 1 {
				return fmt.Errorf("%s stands in the stream %d times", uid, found[uid])
			}
		}
		if len(found) != len(uids) {
			return fmt.Errorf("%d messages stand in the stream", len(found))
		}
		return nil
	}
	lab.Eventually(t, patience, all)
	if time.Now().Before(due) {
		t.Error("they came early")
	}
	s.emptied()
	s.says(a, 0, "12 checked: 12 present", "redeliver", "--since", "1h")

	// The stream is lost, and created again with one message in it.
	if err := js.DeleteStream(t.Context(), streamName); err != nil {
		t.Fatal(err)
	}
	if stream, err = js.CreateStream(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	s.says(b, 0, "12 gone", "redeliver", "--since", "1h", "--dry-run")
	if n := len(stored()); n != 0 {
		t.Errorf("a dry run delivered %d messages", n)
	}
	s.says(b, 0, "4 gone", "redeliver", "--since", begun.Add(-time.Second).UTC().Format(time.RFC3339), "--topic",
		"jobs.repair0", "--dry-run")
	s.says(b, 0, "12 delivered again", "redeliver", "--since", "1h")
	lab.Eventually(t, patience, all)
	s.says(a, 0, "0 gone", "redeliver", "--since", "1h")
	if err := all(); err != nil {
		t.Error(err)
	}
	answer := s.must(a, http.MethodGet, "/v1/messages/"+uids[0]+"/history", nil)
	if !strings.Contains(answer.raw, "redelivered") {
		t.Errorf("its history lacks the redelivery: %s", answer.raw)
	}
}
