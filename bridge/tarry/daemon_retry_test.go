package tarry

import (
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// retryUntilDead is a consumer of JetStream that fails at everything, through the whole of a schedule: the message
// dies, is requeued with other content, and is delivered.
func retryUntilDead(t *testing.T, d *dev) {
	for _, c := range []*Conn{d.client(t), d.client(t, WithRoute(ByRequest))} {
		via := strconv.Itoa(int(c.client.fixed))
		subject, ref := "failing."+via, Ref{ID: "failing-" + via, Key: "k"}
		s := stream(t, c.Conn, jetstream.StreamConfig{Name: "FAILING" + via, Subjects: []string{subject},
			Retention: jetstream.WorkQueuePolicy})
		consumer, err := s.CreateConsumer(t.Context(), jetstream.ConsumerConfig{AckPolicy: jetstream.AckExplicitPolicy})
		if err != nil {
			t.Fatal(err)
		}
		take := func() jetstream.Msg {
			t.Helper()
			m, err := consumer.Next(jetstream.FetchMaxWait(10 * time.Second))
			if err != nil {
				t.Fatal(err)
			}
			return m
		}
		if err := c.PublishMsg(Tag(message(subject, "body", "X", "1"), In(time.Millisecond), As(ref.ID), Key(ref.Key),
			Retries("20ms,30ms"))); err != nil {
			t.Fatal(err)
		}
		delays := []time.Duration{20 * time.Millisecond, 30 * time.Millisecond}
		uids := map[string]bool{}
		for attempt := 1; attempt <= 3; attempt++ {
			m := take()
			h := m.Headers()
			if Attempt(h) != attempt || h.Get(HeaderID) != ref.ID || h.Get(HeaderKey) != ref.Key ||
				h.Get(HeaderRetry) != "20ms,30ms" || h.Get("X") != "1" || string(m.Data()) != "body" ||
				uids[h.Get(nats.MsgIdHdr)] {
				t.Fatalf("attempt %d came as %q with %v", attempt, m.Data(), h)
			}
			if why := h.Get(HeaderReason); (attempt > 1) != (why == "no database") {
				t.Errorf("attempt %d came for the reason %q", attempt, why)
			}
			uids[h.Get(nats.MsgIdHdr)] = true
			sent := time.Now()
			got, err := c.Tarry().Retry(t.Context(), m, "no database")
			if err != nil || got.Attempt != attempt+1 || got.Over != (attempt == 3) ||
				!got.Over && got.Delay != delays[attempt-1] || got.ID != ref.ID || got.Duplicate {
				t.Fatalf("sent back: %+v, %v", got, err)
			}
			if got.Over { // an answer that is lost now makes the consumer ask about a message that has ended
				becomes(t, c, ref, "dead")
			}
			if again, err := c.Tarry().Retry(t.Context(), m, "no database, once more"); err != nil || !again.Duplicate {
				t.Errorf("sent back twice: %+v, %v", again, err)
			}
			if err := m.DoubleAck(t.Context()); err != nil {
				t.Fatal(err)
			}
			if !got.Over {
				back := take()
				if early := time.Until(sent.Add(delays[attempt-1])); early > 0 {
					t.Errorf("it came back %s early", early)
				}
				if err := back.Nak(); err != nil { // the round that follows takes it
					t.Fatal(err)
				}
			}
		}
		dead := becomes(t, c, ref, "dead")
		if dead.Reason != "sent back after 2 retries: no database" || string(dead.Data) != "body" ||
			dead.EndedAt.IsZero() {
			t.Errorf("got %+v", dead)
		}
		_, err = c.Tarry().Cancel(t.Context(), ref)
		wantIs(t, err, ErrAlreadyDead)
		_, err = c.Tarry().Run(t.Context(), ref)
		wantIs(t, err, ErrAlreadyDead)

		r, err := c.Tarry().Requeue(t.Context(), ref,
			Change{Delay: new(20 * time.Millisecond), Header: nats.Header{"Y": {"2"}}, Data: []byte("mended")})
		if err != nil || r.ID != ref.ID || r.UID == "" || r.UID == dead.UID || r.Due.IsZero() {
			t.Fatalf("requeued: %+v, %v", r, err)
		}
		m := take()
		if h := m.Headers(); string(m.Data()) != "mended" || Attempt(h) != 1 || h.Get("Y") != "2" || has(h, "X") ||
			has(h, HeaderReason) || h.Get(HeaderID) != ref.ID {
			t.Errorf("requeued, it came as %q with %v", m.Data(), h)
		}
		if err := m.DoubleAck(t.Context()); err != nil {
			t.Fatal(err)
		}
		becomes(t, c, ref, "delivered")
		_, err = c.Tarry().Requeue(t.Context(), ref, Change{})
		wantIs(t, err, ErrNotDead)
		_, err = c.Tarry().Requeue(t.Context(), Ref{ID: "nobody"}, Change{})
		wantIs(t, err, ErrUnknownID)
	}
}

// retryByTopic gives back what brings no schedule: its topic's counts, and the copy of what is dead comes on the
// topic's subject for that.
func retryByTopic(t *testing.T, d *dev) {
	c := d.client(t)
	sub, graves := listen(t, c, "scheduled.mail"), listen(t, c, "graves.scheduled")
	// it has no name but its uid
	if err := c.PublishMsg(Tag(message("scheduled.mail", "body"), In(time.Millisecond))); err != nil {
		t.Fatal(err)
	}
	id := ""
	for attempt := 1; attempt <= 2; attempt++ {
		m := next(t, sub)
		if id == "" {
			id = m.Header.Get(HeaderID)
		}
		if Attempt(m.Header) != attempt || m.Header.Get(HeaderID) != id || m.Header.Get(HeaderRetry) != "20ms" {
			t.Errorf("attempt %d came with %v", attempt, m.Header)
		}
		if got, err := c.Tarry().RetryMsg(t.Context(), m, "closed"); err != nil || got.Attempt != attempt+1 ||
			got.Over != (attempt == 2) {
			t.Errorf("sent back: %+v, %v", got, err)
		}
	}
	copied := next(t, graves)
	if h := copied.Header; string(copied.Data) != "body" || h.Get(HeaderID) != id ||
		h.Get(HeaderSubject) != "scheduled.mail" || h.Get(HeaderReason) != "closed" {
		t.Errorf("the copy came as %q with %v", copied.Data, h)
	}
	if _, err := c.Tarry().RetryMsg(t.Context(), copied, "again"); !errors.Is(err, ErrCopy) {
		t.Errorf("got %v", err)
	}
	becomes(t, c, Ref{ID: id}, "dead")
	if _, err := c.Tarry().Requeue(t.Context(), Ref{ID: id}, Change{}); err != nil {
		t.Fatal(err)
	}
	if m := next(t, sub); Attempt(m.Header) != 1 || string(m.Data) != "body" {
		t.Errorf("requeued, it came with %v", m.Header)
	}
}

// retryByDelay sends back what tarry delivered, and what it never saw, after a delay that the consumer says.
func retryByDelay(t *testing.T, d *dev) {
	c := d.client(t)
	sub := listen(t, c, "patient")
	if err := c.PublishMsg(Tag(message("patient", "delivered"), In(time.Millisecond), As("patient"))); err != nil {
		t.Fatal(err)
	}
	m := next(t, sub)
	sent := time.Now()
	for range 2 { // the second is the same retry
		if err := errOf(c.Tarry().RetryMsg(t.Context(), m, "", In(50*time.Millisecond))); err != nil {
			t.Fatal(err)
		}
	}
	m = next(t, sub)
	if early := time.Until(sent.Add(50 * time.Millisecond)); early > 0 || Attempt(m.Header) != 2 ||
		m.Header.Get(HeaderID) != "patient" || string(m.Data) != "delivered" {
		t.Errorf("it came back %s early, as %q with %v", early, m.Data, m.Header)
	}
	becomes(t, c, Ref{ID: "patient"}, "delivered")

	if err := c.Publish("patient", []byte("plain")); err != nil {
		t.Fatal(err)
	}
	m = next(t, sub)
	if string(m.Data) != "plain" {
		t.Fatalf("the retry came twice: %q with %v", m.Data, m.Header)
	}
	if err := errOf(c.Tarry().RetryMsg(t.Context(), m, "", In(time.Millisecond))); err != nil {
		t.Fatal(err)
	}
	if m = next(t, sub); Attempt(m.Header) != 2 || string(m.Data) != "plain" {
		t.Errorf("it came back as %q with %v", m.Data, m.Header)
	}

	s := stream(t, c.Conn, jetstream.StreamConfig{Name: "PATIENT", Subjects: []string{"stored"}})
	consumer, err := s.CreateConsumer(t.Context(), jetstream.ConsumerConfig{AckPolicy: jetstream.AckExplicitPolicy})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Publish("stored", []byte("plain")); err != nil {
		t.Fatal(err)
	}
	for attempt := 1; attempt <= 2; attempt++ {
		m, err := consumer.Next(jetstream.FetchMaxWait(10 * time.Second))
		if err != nil {
			t.Fatal(err)
		}
		if Attempt(m.Headers()) != attempt || string(m.Data()) != "plain" {
			t.Errorf("attempt %d came as %q with %v", attempt, m.Data(), m.Headers())
		}
		if attempt == 1 {
			err = errOf(c.Tarry().Retry(t.Context(), m, "", In(time.Millisecond)))
		}
		if err = errors.Join(err, m.DoubleAck(t.Context())); err != nil {
			t.Fatal(err)
		}
	}
}

// retryUntagged is a consumer that fails at everything on a subject where producers publish without a tag as well. What
// was never delayed goes through the schedule and dies like the rest, is requeued, and is delivered.
func retryUntagged(t *testing.T, d *dev) {
	for _, c := range []*Conn{d.client(t), d.client(t, WithRoute(ByRequest))} {
		via := strconv.Itoa(int(c.client.fixed))
		subject, name := "untagged."+via, "UNTAGGED"+via
		s := stream(t, c.Conn, jetstream.StreamConfig{Name: name, Subjects: []string{subject}})
		consumer, err := s.CreateConsumer(t.Context(), jetstream.ConsumerConfig{AckPolicy: jetstream.AckExplicitPolicy})
		if err != nil {
			t.Fatal(err)
		}
		graves := listen(t, c, "graves.untagged")
		if err := c.PublishMsg(message(subject, "body", "X", "1")); err != nil {
			t.Fatal(err)
		}
		take := func(attempt int) jetstream.Msg {
			t.Helper()
			m, err := consumer.Next(jetstream.FetchMaxWait(10 * time.Second))
			if err != nil {
				t.Fatal(err)
			}
			if h := m.Headers(); Attempt(h) != attempt || string(m.Data()) != "body" || h.Get("X") != "1" {
				t.Fatalf("attempt %d came as %q with %v", attempt, m.Data(), h)
			}
			return m
		}
		id := ""
		for attempt := 1; attempt <= 3; attempt++ {
			m := take(attempt)
			got, err := c.Tarry().Retry(t.Context(), m, "no database")
			if err != nil || got.Attempt != attempt+1 || got.Duplicate ||
				attempt > 1 && (got.ID != id || got.Over != (attempt == 3)) {
				t.Fatalf("sent back: %+v, %v", got, err)
			}
			id = got.ID
			if again, err := c.Tarry().Retry(t.Context(), m, "no database, once more"); err != nil ||
				!again.Duplicate ||
				again.ID != id {
				t.Errorf("sent back twice: %+v, %v", again, err)
			}
			if err := m.DoubleAck(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		ref := Ref{ID: id}
		if dead := becomes(t, c, ref, "dead"); dead.Reason != "sent back after 2 retries: no database" ||
			dead.Topic != subject {
			t.Errorf("got %+v", dead)
		}
		copied := next(t, graves)
		if _, err := c.Tarry().RetryMsg(t.Context(), copied, "again"); !errors.Is(err, ErrCopy) ||
			copied.Header.Get(HeaderID) != id {
			t.Errorf("got %v of the copy with %v", err, copied.Header)
		}
		if _, err := c.Tarry().Requeue(t.Context(), ref, Change{}); err != nil {
			t.Fatal(err)
		}
		if err := take(1).DoubleAck(t.Context()); err != nil {
			t.Fatal(err)
		}
		becomes(t, c, ref, "delivered")

		core := listen(t, c, "untagged.core."+via)
		if err := c.PublishMsg(message("untagged.core."+via, "core")); err != nil {
			t.Fatal(err)
		}
		m := next(t, core)
		for range 2 { // each is a message of its own
			if got, err := c.Tarry().RetryMsg(t.Context(), m, "why"); err != nil || got.Attempt != 2 || got.Duplicate {
				t.Fatalf("sent back: %+v, %v", got, err)
			}
		}
		ids := map[string]bool{}
		for range 2 {
			m = next(t, core)
			if ids[m.Header.Get(HeaderID)] || Attempt(m.Header) != 2 || string(m.Data) != "core" ||
				m.Header.Get(HeaderReason) != "why" {
				t.Errorf("it came back as %q with %v", m.Data, m.Header)
			}
			ids[m.Header.Get(HeaderID)] = true
		}
	}
}
