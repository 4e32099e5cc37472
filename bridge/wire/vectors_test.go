package wire_test

import (
	"encoding/json"
	"errors"
	"os"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tarry-mq/tarry/bridge/wire"
)

// vector is one case of testdata/vectors.json. bridge/tarry reads the same file.
type vector struct {
	Name    string
	Prefix  string
	Subject string
	Headers map[string][]string
	Body    string
	Push    *struct {
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

func vectors(tb testing.TB) []vector {
	tb.Helper()
	text, err := os.ReadFile("testdata/vectors.json")
	if err != nil {
		tb.Fatal(err)
	}
	repeat := regexp.MustCompile(`\{\{(.)\*(\d+)\}\}`)
	text = repeat.ReplaceAllFunc(text, func(m []byte) []byte {
		parts := repeat.FindSubmatch(m)
		n, err := strconv.Atoi(string(parts[2]))
		if err != nil {
			tb.Fatal(err)
		}
		return []byte(strings.Repeat(string(parts[1]), n))
	})
	var file struct{ Cases []vector }
	if err := json.Unmarshal(text, &file); err != nil {
		tb.Fatal(err)
	}
	for i := range file.Cases {
		if file.Cases[i].Prefix == "" {
			file.Cases[i].Prefix = wire.DefaultPrefix
		}
	}
	return file.Cases
}

// want builds the push that the vector promises.
func (v vector) want() wire.Push {
	p := wire.Push{
		Topic: v.Push.Topic, Delay: time.Duration(v.Push.DelayMS) * time.Millisecond, DelayText: v.Push.Delay,
		ID: v.Push.ID, Key: v.Push.Key, OnDuplicate: v.Push.OnDuplicate, Deliver: v.Push.Deliver,
		Priority: v.Push.Priority, TTL: time.Duration(v.Push.TTLMS) * time.Millisecond, Attempt: v.Push.Attempt,
		Lease:   time.Duration(v.Push.LeaseMS) * time.Millisecond,
		MaxWait: time.Duration(v.Push.MaxWaitMS) * time.Millisecond, Reason: v.Push.Reason,
	}
	if v.Push.AtMS != nil {
		p.HasAt, p.At = true, time.UnixMilli(*v.Push.AtMS).UTC()
	}
	if v.Push.Retry != "" { // in its one form
		p.Retry, _ = wire.ParseRetry(v.Push.Retry)
	}
	for _, h := range v.Push.Headers {
		p.Headers = append(p.Headers, wire.Header{Name: h[0], Value: h[1]})
	}
	return p
}

func TestDecode_HoldsTheGoldenVectors(t *testing.T) {
	t.Parallel()
	cases := vectors(t)
	if len(cases) < 100 {
		t.Fatalf("got %d vectors, the file holds more than a hundred", len(cases))
	}
	names := map[string]bool{}
	for _, v := range cases {
		if names[v.Name] {
			t.Errorf("two vectors are called %q", v.Name)
		}
		names[v.Name] = true
		t.Run(v.Name, func(t *testing.T) {
			t.Parallel()
			for range 8 { // maps come in another order each time; the answer must not
				got, err := wire.Decode(v.Subject, v.Prefix, v.Headers, len(v.Body))
				if v.Error != "" {
					wantRefusal(t, err, v.Error, v.Field)
					continue
				}
				if err != nil {
					t.Fatalf("Decode: %v", err)
				}
				if got.Retry.String() != v.Push.Retry {
					t.Fatalf("retries %q, want %q", got.Retry, v.Push.Retry)
				}
				if want := v.want(); !reflect.DeepEqual(got, want) {
					t.Fatalf("got %+v\nwant %+v", got, want)
				}
			}
		})
	}
}

func TestDecode_RoundTripsTheGoldenVectors(t *testing.T) {
	t.Parallel()
	for _, v := range vectors(t) {
		if v.Error == "" {
			subject, h := wire.Encode(v.want(), v.Prefix)
			again, err := wire.Decode(subject, v.Prefix, h, len(v.Body))
			if err != nil || !reflect.DeepEqual(again, v.want()) {
				t.Errorf("%s: got %+v, %v\nwant %+v", v.Name, again, err, v.want())
			}
		}
	}
}

func TestError_NamesTheFieldAndFitsOnALine(t *testing.T) {
	t.Parallel()
	for _, v := range vectors(t) {
		if v.Error == "" {
			continue
		}
		_, err := wire.Decode(v.Subject, v.Prefix, v.Headers, len(v.Body))
		if err == nil {
			t.Errorf("%s: accepted", v.Name)
			continue
		}
		text := err.Error()
		if !strings.HasPrefix(text, v.Field+" ") {
			t.Errorf("%s: %q does not start with the field %q", v.Name, text, v.Field)
		}
		if len(text) > 220 || strings.ContainsAny(text, "\r\n\x00") {
			t.Errorf("%s: %q is not a short line", v.Name, text)
		}
	}
}

func wantRefusal(t *testing.T, err error, word, field string) {
	t.Helper()
	var refused *wire.Error
	if !errors.As(err, &refused) {
		t.Fatalf("got %v, want a refusal %s", err, word)
	}
	if refused.Word != word || refused.Field != field {
		t.Fatalf("got %s of %s (%v), want %s of %s", refused.Word, refused.Field, err, word, field)
	}
}
