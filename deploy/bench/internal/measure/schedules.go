package measure

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tarry-mq/tarry/deploy/bench/internal/load"
	"github.com/tarry-mq/tarry/deploy/bench/internal/stage"
)

const (
	schedulePrefix = "schedule."
	scheduleTime   = "2006-01-02T15:04:05.000Z"
)

// schedules starts a nats-server and a stream with schedules. What a schedule emits stays in the same stream, as NATS
// wants it.
func (b bench) schedules(ctx context.Context, s *stage.Scope) (*load.Client, stage.Process, error) {
	server := s.NATS()
	process := stage.Process{Name: "nats", Pid: server.Pid()}
	c, err := dial(s, server.URL(), inFlight)
	if err != nil {
		return nil, process, err
	}
	_, err = c.JS.CreateStream(ctx,
		jetstream.StreamConfig{Name: dueStream, Subjects: []string{schedulePrefix + ">", dueSubject},
			Storage: jetstream.FileStorage, AllowMsgSchedules: true})
	if err != nil {
		return nil, process, fmt.Errorf("make the stream with schedules: %w", err)
	}
	return c, process, nil
}

// scheduled is a message that NATS itself delays. NATS keeps one schedule a subject.
func (b bench) scheduled(n int, due time.Time) *nats.Msg {
	return &nats.Msg{Subject: schedulePrefix + strconv.Itoa(n), Data: b.body(n), Header: nats.Header{
		jetstream.ScheduleHeader:       {"@at " + due.UTC().Format(scheduleTime)},
		jetstream.ScheduleTargetHeader: {dueSubject},
	}}
}

func (b bench) scheduledFarOff(n int) *nats.Msg { return b.scheduled(n, time.Now().Add(farOff(n))) }

func (b bench) scheduledFor(due time.Time) load.Message {
	return func(n int) *nats.Msg { return b.scheduled(n, due) }
}

// bare starts a nats-server and the stream that messages are due on, and nothing that delays.
func (b bench) bare(ctx context.Context, s *stage.Scope, pending int) (*load.Client, stage.Process, error) {
	server := s.NATS()
	process := stage.Process{Name: "nats", Pid: server.Pid()}
	c, err := dial(s, server.URL(), pending)
	if err != nil {
		return nil, process, err
	}
	return c, process, b.makeDueStream(ctx, c)
}

// plain publishes directly to its stream, deduplicated as tarry's deliveries are.
func (b bench) plain(n int) *nats.Msg {
	return &nats.Msg{Subject: dueSubject, Data: b.body(n), Header: nats.Header{nats.MsgIdHdr: {messageID(n)}}}
}

// messageID is as long as the ids that a scheduler would use.
func messageID(n int) string { return fmt.Sprintf("%020d", n) }
