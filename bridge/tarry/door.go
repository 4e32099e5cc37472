package tarry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
)

// door is what a client knows of the direct door: requests on tarry.<namespace>.push.<subject>, which an instance
// answers once it has stored the message.
type door struct {
	prefix string // of the subjects
	// denied is 1 more than the number of reconnects of the connection on which the server refused a publish to the door.
	denied atomic.Uint64
}

// errDenied: the server refuses publishes to the door on this connection. Nothing was sent.
var errDenied = errors.New("tarry: the server refuses publishes to the direct door")

// deniedAfter is how long a push waits before it asks whether the server refused it: nobody answers a refused publish,
// and only the server's error, which precedes its next PONG, says why.
const deniedAfter = 50 * time.Millisecond

// knock pushes through the door. Each attempt carries the same Nats-Msg-Id, by which an instance recognizes that a push
// is stored already. They end a minute after the first, while instances still know it. Once an attempt may have been
// stored, no error says otherwise.
func (c *Client) knock(ctx context.Context, out *outgoing) (Stored, error) {
	m := &nats.Msg{Subject: c.door.prefix + out.push.Topic, Header: out.msg.Header, Data: out.msg.Data}
	for start, sent := time.Now(), false; ; {
		s, err := c.attemptAtDoor(ctx, m)
		var refused *Error
		switch {
		case err == nil:
			return s, nil
		case errors.As(err, &refused) && refused.Word != "outcome_unknown":
			if !sent || !later(refused) {
				return Stored{}, err
			}
		case errors.As(err, &refused), isTimeout(err):
			sent = true
		case !sent || !isNoResponders(err):
			return Stored{}, err
		}
		waited := errors.Is(err, context.DeadlineExceeded)
		if ctx.Err() != nil || time.Since(start) > resendWithin || !waited && !pause(ctx) {
			return Stored{}, fmt.Errorf("%w (Nats-Msg-Id %s)", unknown(err), out.msg.Header.Get(nats.MsgIdHdr))
		}
	}
}

// attemptAtDoor sends one request and waits for the answer for a limited time.
func (c *Client) attemptAtDoor(ctx context.Context, m *nats.Msg) (Stored, error) {
	reconnects := func() uint64 { return c.nc.Stats().Reconnects + 1 }
	if denied := c.door.denied.Load(); denied > 0 && denied == reconnects() {
		return Stored{}, errDenied
	}
	limited, cancel := context.WithTimeout(ctx, c.ackWait)
	defer cancel()
	limited, end := context.WithCancelCause(limited)
	defer end(nil)
	watch := time.AfterFunc(deniedAfter, func() {
		now := reconnects()
		if c.nc.FlushWithContext(limited) == nil && c.door.refused(c.nc.LastError()) {
			c.door.denied.Store(now)
			end(errDenied)
		}
	})
	defer watch.Stop()
	reply, err := c.nc.RequestMsgWithContext(limited, m)
	if err != nil {
		if errors.Is(context.Cause(limited), errDenied) {
			err = errDenied
		}
		return Stored{}, err
	}
	var a struct {
		pushAnswer
		Word string `json:"error"`
	}
	if err = json.Unmarshal(reply.Data, &a); err != nil || a.Word != "" {
		err = readAnswer(reply.Data, &a)
	}
	o := a.outcome(err)
	return o.Stored, o.Err
}

// refused reports whether an error of the connection is the refusal of a publish to the door.
func (d *door) refused(err error) bool {
	return errors.Is(err, nats.ErrPermissionViolation) &&
		strings.Contains(strings.ToLower(err.Error()), `publish to "`+strings.ToLower(d.prefix))
}

// later reports whether an instance answered that it wrote nothing and that the push may come again.
func later(refused *Error) bool {
	return passing(refused) || refused.Word == "store_full" || refused.Word == "journal_behind"
}

// passing reports whether the next attempt may well succeed, at another instance too.
func passing(err error) bool {
	var refused *Error
	if !errors.As(err, &refused) {
		return isNoResponders(err)
	}
	switch refused.Word {
	case "stopping", "busy", "unavailable", "bucket_unavailable":
		return true
	}
	return false
}

// elsewhere reports whether a push that the door did not take may go to the intake stream: it is certain that nothing
// was written.
func elsewhere(err error) bool {
	if errors.Is(err, ErrOutcomeUnknown) {
		return false
	}
	var refused *Error
	return isNoResponders(err) || errors.Is(err, errDenied) || errors.As(err, &refused) && later(refused)
}
