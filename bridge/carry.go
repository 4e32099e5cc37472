package bridge

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"github.com/tarry-mq/tarry/bridge/wire"
	"github.com/tarry-mq/tarry/scheduler/message"
)

// Left counts the messages that a namespace's streams hold in a NATS that is about to be abandoned.
type Left struct {
	// Intake counts the pushes that were acknowledged and not yet finished by any instance, Rejects the pushes that
	// could not be accepted.
	Intake, Rejects uint64
}

// Leftover counts the messages in the streams of a namespace. A missing stream holds none.
func Leftover(ctx context.Context, nc *nats.Conn, namespace string) (left Left, err error) {
	js, err := jetstream.New(nc)
	if err != nil {
		return Left{}, err
	}
	var standing uint64
	for name, n := range map[string]*uint64{
		StreamName(namespace): &left.Intake, AsideName(namespace): &standing, RejectsName(namespace): &left.Rejects,
	} {
		s, err := js.Stream(ctx, name)
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			continue
		}
		if err != nil {
			return Left{}, fmt.Errorf("look up stream %s: %w", name, err)
		}
		*n = s.CachedInfo().State.Msgs
	}
	left.Intake += standing
	return left, nil
}

// CarryConfig configures a Carry.
type CarryConfig struct {
	From, To          *nats.Conn
	Namespace, Prefix string
	// Replicas and MaxBytes are the settings of the intake stream if it has to be created in To; 0 bytes is no limit.
	Replicas int
	MaxBytes int64
	// RejectBytes and RejectsPerSubject are the settings of the stream of rejects.
	RejectBytes, RejectsPerSubject int64
	// Known reports whether a push has been accepted already and only its acknowledgement was lost.
	Known func(ctx context.Context, uid message.UID) (bool, error)
	Log   zerolog.Logger
}

// Carried counts the pushes and rejects that Carry moved, and the pushes that it dropped because they were known.
type Carried struct{ Pushes, Known, Rejects int }

// Carry moves a namespace's messages from one NATS to another: pushes that no instance accepted, and rejects. The
// source must not be in use meanwhile. A message is removed from the source once the target has acknowledged it, so an
// interrupted carry continues where it stopped; if an acknowledgement of the target was lost, the target recognizes the
// repeated message for two minutes. A push keeps its due time: a delay counts from the moment at which the source
// stored the push, so Carry replaces it by the time at which it ends.
func Carry(ctx context.Context, cfg CarryConfig) (done Carried, err error) {
	source, err := jetstream.New(cfg.From)
	if err != nil {
		return done, err
	}
	target := &Intake{
		cfg: IntakeConfig{Namespace: cfg.Namespace, Prefix: cfg.Prefix, Replicas: max(cfg.Replicas, 1),
			MaxBytes:    cfg.MaxBytes,
			RejectBytes: cfg.RejectBytes, RejectsPerSubject: cfg.RejectsPerSubject},
		nc: cfg.To, log: cfg.Log, stream: StreamName(cfg.Namespace), rejects: RejectsName(cfg.Namespace),
	}
	if target.js, err = jetstream.New(cfg.To); err != nil {
		return done, err
	}
	if err := target.open(ctx); err != nil {
		return done, err
	}
	push := func(raw *jetstream.RawStreamMsg) error {
		msg, uid := carried(raw, cfg.Prefix)
		if uid != "" {
			known, err := cfg.Known(ctx, uid)
			if known {
				done.Known++
			}
			if known || err != nil {
				return err
			}
		}
		done.Pushes++
		return target.put(ctx, msg, raw)
	}
	err = drain(ctx, source, AsideName(cfg.Namespace), func(raw *jetstream.RawStreamMsg) error {
		msg, place, err := decodeAside(raw.Data)
		if err != nil {
			cfg.Log.Warn().Err(err).Uint64("sequence", raw.Sequence).Msg("dropped a message that no instance put aside")
			return nil
		}
		return push(&jetstream.RawStreamMsg{
			Subject: msg.Subject, Header: msg.Header, Data: msg.Data, Sequence: place.sequence, Time: place.at,
		})
	})
	if err != nil {
		return done, fmt.Errorf("carry the pushes put aside: %w", err)
	}
	if err = drain(ctx, source, target.stream, push); err != nil {
		return done, fmt.Errorf("carry the intake: %w", err)
	}
	err = drain(ctx, source, target.rejects, func(raw *jetstream.RawStreamMsg) error {
		done.Rejects++
		return target.put(ctx, &nats.Msg{Subject: raw.Subject, Header: raw.Header, Data: raw.Data}, raw)
	})
	if err != nil {
		return done, fmt.Errorf("carry the rejects: %w", err)
	}
	return done, nil
}

// carried returns a push in the form for the target's intake, and its uid in the source. A message that could not be
// accepted has no uid and is carried unchanged.
func carried(raw *jetstream.RawStreamMsg, prefix string) (*nats.Msg, message.UID) {
	msg := &nats.Msg{Subject: raw.Subject, Header: nats.Header{}, Data: raw.Data}
	for name, values := range raw.Header {
		msg.Header[name] = values
	}
	tagged, err := wire.Decode(raw.Subject, prefix, raw.Header, len(raw.Data))
	if err != nil {
		return msg, ""
	}
	uid, err := message.IntakeUID(raw.Sequence, raw.Time, tagged.ID, tagged.Key)
	if err != nil {
		return msg, ""
	}
	if tagged.DelayText != "" {
		for name := range msg.Header {
			if strings.EqualFold(name, wire.HeaderDelay) {
				delete(msg.Header, name)
			}
		}
		due := message.CeilMilli(raw.Time.Add(tagged.Delay))
		msg.Header[wire.HeaderAt] = []string{strconv.FormatInt(int64(due), 10)}
	}
	return msg, uid
}

// put publishes a message once, however often it is repeated within the duplicate window.
func (in *Intake) put(ctx context.Context, msg *nats.Msg, raw *jetstream.RawStreamMsg) error {
	ctx, stop := context.WithTimeout(ctx, rejectTimeout)
	defer stop()
	_, err := in.js.PublishMsg(ctx, msg,
		jetstream.WithMsgID(fmt.Sprintf("carried-%d-%d", raw.Time.UnixNano(), raw.Sequence)))
	return err
}

// drain hands every message of a stream to do, in order, and removes it from the stream once do has returned nil.
func drain(ctx context.Context, js jetstream.JetStream, name string, do func(*jetstream.RawStreamMsg) error) error {
	s, err := js.Stream(ctx, name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil
	} else if err != nil {
		return err
	}
	for next := uint64(1); ; {
		call, stop := context.WithTimeout(ctx, 2*apiTimeout)
		raw, err := s.GetMsg(call, next, jetstream.WithGetMsgSubject(">"))
		stop()
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return nil
		} else if err != nil {
			return err
		}
		if err := do(raw); err != nil {
			return err
		}
		if err := s.DeleteMsg(ctx, raw.Sequence); err != nil {
			return err
		}
		next = raw.Sequence + 1
	}
}
