package tarry

import (
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tarry-mq/tarry/bridge/tarry/internal/wire"
)

// daemon is the package whose rules these are. A module in the module cache comes without it.
const daemon = "../wire"

func needDaemon(t *testing.T) {
	t.Helper()
	if _, err := os.Stat(daemon); errors.Is(err, os.ErrNotExist) {
		needs(t, "the daemon's source")
		t.Fatal("the daemon's source is not part of this module; run the test in tarry's repository")
	}
}

func TestRules_AreTheDaemonsOwn(t *testing.T) {
	t.Parallel()
	needDaemon(t)
	files, err := filepath.Glob("internal/wire/*.go")
	if err != nil || len(files) < 5 {
		t.Fatalf("got %v, %v", files, err)
	}
	for _, file := range files {
		if filepath.Base(file) == "doc.go" {
			continue
		}
		mine, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		theirs, err := os.ReadFile(filepath.Join(daemon, filepath.Base(file)))
		if err != nil {
			t.Fatal(err)
		}
		const head = "// Code generated from bridge/wire by go generate; DO NOT EDIT.\n\n"
		if string(mine) != head+string(theirs) {
			t.Errorf("%s is not the daemon's; run go generate ./internal/wire", file)
		}
	}
}

// vector is one case of the daemon's testdata/vectors.json.
type vector struct {
	Name, Bare, Prefix, Subject string
	Body                        string
	Headers                     map[string][]string
	Push                        *struct {
		Topic       string
		Delay       string
		DelayMS     int64  `json:"delay_ms"`
		AtMS        *int64 `json:"at_ms"`
		ID, Key     string
		OnDuplicate string `json:"on_duplicate"`
		Deliver     string
		Priority    uint8
		TTLMS       int64 `json:"ttl_ms"`
		LeaseMS     int64 `json:"lease_ms"`
		Attempt     int
		MaxWaitMS   int64 `json:"max_wait_ms"`
		Retry       string
		Reason      string
		Headers     [][2]string
	}
	Error, Field string
}

func TestRewrite_HoldsTheGoldenVectors(t *testing.T) {
	t.Parallel()
	needDaemon(t)
	text, err := os.ReadFile(filepath.Join(daemon, "testdata", "vectors.json"))
	if err != nil {
		t.Fatal(err)
	}
	repeat := regexp.MustCompile(`\{\{(.)\*(\d+)\}\}`)
	text = repeat.ReplaceAllFunc(text, func(m []byte) []byte {
		parts := repeat.FindSubmatch(m)
		n, _ := strconv.Atoi(string(parts[2]))
		return []byte(strings.Repeat(string(parts[1]), n))
	})
	var file struct{ Cases []vector }
	if err := json.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	ran := 0
	for _, v := range file.Cases {
		if v.Bare != "" {
			continue
		}
		ran++
		t.Run(v.Name, func(t *testing.T) {
			t.Parallel()
			v.check(t)
		})
	}
	if ran < 90 {
		t.Fatalf("only %d vectors apply", ran)
	}
}

func (v vector) check(t *testing.T) {
	prefix := v.Prefix
	if prefix == "" {
		prefix = wire.DefaultPrefix
	}
	c := &Client{config: config{prefix: prefix}, nc: &nats.Conn{}}
	m := &nats.Msg{Subject: strings.TrimPrefix(v.Subject, prefix+"."), Header: v.Headers, Data: []byte(v.Body)}
	before := maps.Clone(m.Header)
	if !tagged(m.Header) && !has(m.Header, HeaderAttempt) { // a retry by its schedule is pushed as such, not published
		t.Fatal("a vector without a tag must say that it is bare")
	}
	out, err := c.rewrite(m)
	if !reflect.DeepEqual(m.Header, before) {
		t.Fatal("the caller's header was changed")
	}
	if v.Error != "" {
		wantRefused(t, err, v.Error, v.Field)
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	want := wire.Push{
		Topic: v.Push.Topic, Delay: time.Duration(v.Push.DelayMS) * time.Millisecond, DelayText: v.Push.Delay,
		ID: v.Push.ID, Key: v.Push.Key, OnDuplicate: v.Push.OnDuplicate, Deliver: v.Push.Deliver,
		Priority: v.Push.Priority, TTL: time.Duration(v.Push.TTLMS) * time.Millisecond, Attempt: v.Push.Attempt,
		Lease:   time.Duration(v.Push.LeaseMS) * time.Millisecond,
		MaxWait: time.Duration(v.Push.MaxWaitMS) * time.Millisecond, Reason: v.Push.Reason,
	}
	if v.Push.AtMS != nil {
		want.HasAt, want.At = true, time.UnixMilli(*v.Push.AtMS).UTC()
	}
	if v.Push.Retry != "" {
		want.Retry, _ = wire.ParseRetry(v.Push.Retry)
	}
	if out.push.Retry.String() != v.Push.Retry {
		t.Fatalf("retries %q, want %q", out.push.Retry, v.Push.Retry)
	}
	for _, h := range v.Push.Headers {
		want.Headers = append(want.Headers, wire.Header{Name: h[0], Value: h[1]})
	}
	if !reflect.DeepEqual(out.push, want) {
		t.Fatalf("got %+v\nwant %+v", out.push, want)
	}
	again, err := wire.Decode(out.msg.Subject, prefix, out.msg.Header, len(v.Body))
	if err != nil || !reflect.DeepEqual(again, want) || out.msg.Subject != v.Subject {
		t.Fatalf("what goes out to %q reads as %+v, %v", out.msg.Subject, again, err)
	}
}
