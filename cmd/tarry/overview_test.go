package main

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// A monitor needs the exit code, and a person the sentences, the worst first.
func TestOverview_FailsWhereSomethingStops(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string]struct {
		code int
		text string
	}{
		`{"level":"well","conditions":[],"instances":2,"healthy":2,"leader":{"instance":"a"}}`: {exitDone,
			"all is well\na leads, 2 of 2 instances could\n"},
		`{"level":"well","conditions":[],"last_hour":{"accepted":9,"delivered":7,"late":1,"canceled":2,"dead":3}}`: {
			exitDone, "in the last hour 9 accepted, 7 delivered (1 late), 2 canceled, 0 expired, 3 dead"},
		`{"level":"well","conditions":[{"word":"journal_off","level":"note","detail":"the journal is off"}]}`: {exitDone,
			"all is well\nnote  the journal is off (journal_off)\n"},
		`{"level":"held","conditions":[{"word":"paused","level":"held","name":"mail.>","by":"ann\u001b","count":412,` +
			`"detail":"mail.> is paused"}],"messages":{"waiting":500,"ready":1,"in_flight":2,"leased":0,"dead":3},` +
			`"next":"2030-01-31T12:00:00.000Z"}`: {exitDone,
			"held  mail.> is paused, 412, by \"ann\\x1b\" (paused)\n500 waiting, 1 ready, 2 in flight, 3 dead; " +
				"the next falls due at 2030-01-31T12:00:00.000Z"},
		`{"level":"stop","conditions":[{"word":"nats_away","level":"stop","detail":"NATS: not connected"}]}`: {exitFailed,
			"stop  NATS: not connected (nats_away)"},
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(answer))
		}))
		t.Cleanup(s.Close)
		tarry(t, "", nil, "overview", "--server", s.URL).want(t, want.code, want.text)
	}
}
