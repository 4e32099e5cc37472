package api_test

import (
	"errors"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

// gone is the connection of a client that does not read its answer.
type gone struct{ *httptest.ResponseRecorder }

func (gone) FlushError() error { return errors.New("broken pipe") }

// What cannot be written to a consumer is given back at once, unless it may ask for it again.
func TestPull_GivesBackWhatItCannotWrite(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		body  string
		fails bool
		gave  int64
	}{
		"it reads":               {`{}`, false, 0},
		"it has gone":            {`{}`, true, 1},
		"it may repeat the poll": {`{"attempt":"a"}`, true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			one := info(uidA, "a", message.StateInFlight)
			p := pullers{gave: new(atomic.Int64), found: []scheduler.PulledMessage{{
				LeasedMessage: scheduler.LeasedMessage{Message: &one.Message, Until: later}, Nonce: 1}}}
			w := httptest.NewRecorder()
			r := httptest.NewRequestWithContext(t.Context(), "POST", "/v1/topics/a/pull", strings.NewReader(c.body))
			if d := open(t, with(service{pullers: p})); c.fails {
				d.ServeHTTP(gone{w}, r)
			} else {
				d.ServeHTTP(w, r)
			}
			if w.Code != 200 || p.gave.Load() != c.gave {
				t.Errorf("%d %s; %d messages were given back, want %d", w.Code, w.Body, p.gave.Load(), c.gave)
			}
		})
	}
}
