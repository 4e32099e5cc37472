package load

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// answering is an API that gives each message of a batch the same outcome.
func answering(t *testing.T, outcome string, got *atomic.Int64) Batches {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var request struct {
			Messages []struct {
				Body string `json:"body"`
			} `json:"messages"`
		}
		if err := json.NewDecoder(r.Body).Decode(&request); err != nil || r.URL.Path != "/v1/messages/batch" {
			http.Error(w, fmt.Sprint(r.URL.Path, err), http.StatusBadRequest)
			return
		}
		got.Add(int64(len(request.Messages)))
		fmt.Fprintf(w, `{"results":[%s]}`, strings.TrimSuffix(strings.Repeat(outcome+",", len(request.Messages)), ","))
	}))
	t.Cleanup(server.Close)
	return Batches{URL: server.URL, Size: 7, Connections: 2, Item: func(to []byte, n int) []byte {
		return append(to, `{"body":"`+strconv.Itoa(n)+`"}`...)
	}}
}

func TestBatchesPushEveryMessage(t *testing.T) {
	t.Parallel()
	var got atomic.Int64
	sent, err := answering(t, `{"id":"a","uid":"a","state":"waiting"}`, &got).Send(t.Context(), 100, time.Minute)
	if err != nil || sent.Count != 100 || got.Load() != 100 {
		t.Fatalf("sent %d, received %d, %v; want 100", sent.Count, got.Load(), err)
	}
}

func TestBatchesFailWhenAMessageIsNotAcceptedAsNew(t *testing.T) {
	t.Parallel()
	for _, outcome := range []string{`{"error":"unavailable","detail":"redis"}`,
		`{"id":"a","uid":"a","duplicate":true}`,
		`{"id":"a","uid":"a","merged":true}`, `{}`} {
		t.Run(outcome, func(t *testing.T) {
			t.Parallel()
			var got atomic.Int64
			if _, err := answering(t, outcome, &got).Send(t.Context(), 10, time.Minute); !errors.Is(err, errAnswer) {
				t.Fatalf("the error is %v, want %v", err, errAnswer)
			}
		})
	}
}

func TestBatchesTellStarvedServersFromOtherRefusals(t *testing.T) {
	t.Parallel()
	for outcome, want := range map[string]bool{
		`{"error":"unavailable","detail":"the journal has not answered for 1.189s"}`: true,
		`{"error":"outcome_unknown"}`: true, `{"error":"busy"}`: false,
		`{"id":"a","uid":"a","duplicate":true}`: false, `{}`: false, `{"error":"unavailable"},{"error":"invalid"}`: false,
	} {
		var got atomic.Int64
		if _, err := answering(t, outcome, &got).Send(t.Context(), 10, time.Minute); errors.Is(err, ErrStarved) != want ||
			strings.Contains(outcome, "1.189s") && !strings.Contains(err.Error(), "1.189s") {
			t.Errorf("%s: the error is %v", outcome, err)
		}
	}
	for status, want := range map[int]bool{503: true, 504: true, 500: false, 429: false} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
		}))
		b := Batches{URL: server.URL, Size: 7, Connections: 2, Item: func(to []byte, _ int) []byte { return to }}
		if _, err := b.Send(t.Context(), 10, time.Minute); err == nil || errors.Is(err, ErrStarved) != want {
			t.Errorf("%d: the error is %v", status, err)
		}
		server.Close()
	}
}

func TestBatchesFailUnlessAsManyMergeAsShould(t *testing.T) {
	t.Parallel()
	for _, off := range []int{-1, 0, 1} {
		var got atomic.Int64
		b := answering(t, `{"id":"a","uid":"a","merged":true}`, &got)
		b.Merged = func(from, to int) int { return to - from + off }
		if _, err := b.Send(t.Context(), 10, time.Minute); errors.Is(err, errAnswer) != (off != 0) {
			t.Errorf("%+d: the error is %v", off, err)
		}
	}
}

func TestBatchesFailWhenTheRequestIsRefused(t *testing.T) {
	t.Parallel()
	var got atomic.Int64
	b := answering(t, `{}`, &got)
	b.URL += "/unknown"
	if _, err := b.Send(t.Context(), 10, time.Minute); err == nil || !strings.Contains(err.Error(), "400") {
		t.Fatalf("the error is %v, want the status", err)
	}
}
