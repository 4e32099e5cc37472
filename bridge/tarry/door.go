package tarry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// door is what a client knows of the direct door: requests on tarry.<namespace>.push.<subject>, which an instance
// answers once it has stored the message.
type door struct {
	prefix string // of the subjects
	deaf   bool   // the connection's inboxes are none to which instances answer

	mu sync.Mutex
	// Of the connection since its last reconnect: subjects that the server refuses, and by the first token of topics
	// whether an instance has answered (true) or the server refused one (false).
	reconnects uint64
	refused    map[string]bool
	first      map[string]bool
	plain      bool // an instance of before took no request for many
}

var (
	// errDenied: the server refuses publishes to the door, on this connection and for this subject. Nothing was sent.
	errDenied = errors.New("tarry: the server refuses publishes to the direct door")
	// errDeaf: no answer reaches this connection. Nothing was sent.
	errDeaf = errors.New("tarry: instances do not answer to inboxes outside _INBOX; the intake stream needs no answer " +
		"of theirs")
)

const (
	// deniedAfter is how long a push waits before it asks whether the server refused it: nobody answers a refused
	// publish, and only the server's error, which precedes its next PONG, says why.
	deniedAfter = 50 * time.Millisecond
	maxDenied   = 1000 // subjects that are remembered
)

// closed reports whether the server refused this subject before, or one with its first token where it let none pass: a
// producer from before the door existed learns that once, and one with rights on some subjects loses none of them.
func (d *door) closed(nc *nats.Conn, subject string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.renew(nc)
	passes, known := d.first[d.token(subject)]
	return d.refused[subject] || known && !passes
}

// learn remembers whether the server let a publish pass.
func (d *door) learn(nc *nats.Conn, subject string, passes bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.renew(nc)
	token := d.token(subject)
	if d.first[token] = passes || d.first[token]; !passes {
		d.refused[subject] = true
	}
}

// renew forgets what was learned before a reconnect: rights may have changed.
func (d *door) renew(nc *nats.Conn) {
	if n := nc.Stats().Reconnects + 1; n != d.reconnects || len(d.refused)+len(d.first) > maxDenied {
		d.reconnects, d.refused, d.first, d.plain = n, map[string]bool{}, map[string]bool{}, false
	}
}

// single reports whether each push goes by itself, which is learned once a connection.
func (d *door) single(nc *nats.Conn) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.renew(nc)
	return d.plain
}

func (d *door) onlySingle(nc *nats.Conn) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.renew(nc)
	d.plain = true
}

func (d *door) token(subject string) string {
	token, _, _ := strings.Cut(subject[len(d.prefix):], ".")
	return token
}

// knock pushes through the door. Each attempt carries the same Nats-Msg-Id, by which an instance recognizes that a push
// is stored already. They end a minute after the first, while instances still know it. Once an attempt may have been
// stored, every error but a refusal by tarry itself says so.
func (c *Client) knock(ctx context.Context, out *outgoing) (Stored, error) {
	m := &nats.Msg{Subject: c.door.prefix + out.push.Topic, Header: out.msg.Header, Data: out.msg.Data}
	if c.door.deaf {
		return Stored{}, errDeaf
	}
	for start, sent := time.Now(), false; ; {
		s, err := c.once(ctx, m)
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
		case !sent:
			return Stored{}, err
		}
		// What is sent without a link waits for it, and would arrive when the call is forgotten.
		for again := false; !again || !c.nc.IsConnected(); again = true {
			late := time.Since(start) > resendWithin || time.Now().Round(0).Sub(start.Round(0)) > resendWithin
			waited := !again && errors.Is(err, context.DeadlineExceeded)
			if ctx.Err() != nil || late || c.nc.IsClosed() || !waited && !pause(ctx) {
				return Stored{}, fmt.Errorf("%w (Nats-Msg-Id %s)", unknown(err), out.msg.Header.Get(nats.MsgIdHdr))
			}
		}
	}
}

// attemptAtDoor sends one request and waits for the answer for a limited time.
func (c *Client) attemptAtDoor(ctx context.Context, m *nats.Msg) (Stored, error) {
	reply, err := c.askDoor(ctx, m)
	if err != nil {
		return Stored{}, err
	}
	var a struct {
		pushAnswer
		Word string `json:"error"`
	}
	if err = json.Unmarshal(reply, &a); err != nil || a.Word != "" {
		err = readAnswer(reply, &a)
	}
	o := a.outcome(err)
	return o.Stored, o.Err
}

// once pushes once, together with what others push on the subject meanwhile.
func (c *Client) once(ctx context.Context, m *nats.Msg) (Stored, error) {
	if c.door.single(c.nc) {
		return c.attemptAtDoor(ctx, m)
	}
	return c.pushes.do(ctx, m.Subject, m)
}

// askDoor sends one request and returns the answer, whatever it says.
func (c *Client) askDoor(ctx context.Context, m *nats.Msg) (answer []byte, err error) {
	if c.door.closed(c.nc, m.Subject) {
		return nil, errDenied
	}
	limited, cancel := context.WithTimeout(ctx, c.ackWait)
	defer cancel()
	limited, end := context.WithCancelCause(limited)
	defer end(nil)
	watch := time.AfterFunc(deniedAfter, func() {
		if c.nc.FlushWithContext(limited) == nil && isRefusal(c.nc.LastError(), m.Subject) {
			c.door.learn(c.nc, m.Subject, false)
			end(errDenied)
		}
	})
	defer watch.Stop()
	reply, err := c.nc.RequestMsgWithContext(limited, m)
	if err != nil {
		if errors.Is(context.Cause(limited), errDenied) {
			err = errDenied
		}
		return nil, err
	}
	c.door.learn(c.nc, m.Subject, true)
	return reply.Data, nil
}

// isRefusal reports whether an error of the connection is the refusal of a publish to this very subject.
func isRefusal(err error, subject string) bool {
	return errors.Is(err, nats.ErrPermissionViolation) &&
		strings.Contains(strings.ToLower(err.Error()), `publish to "`+strings.ToLower(subject)+`"`)
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
	return isNoResponders(err) || errors.Is(err, errDenied) || errors.Is(err, errDeaf) ||
		errors.As(err, &refused) && later(refused)
}
