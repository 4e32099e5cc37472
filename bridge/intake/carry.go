package intake

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/rs/zerolog"

	"github.com/tarry-mq/tarry/bridge/link"
	"github.com/tarry-mq/tarry/bridge/rejects"
	"github.com/tarry-mq/tarry/bridge/wire"
	"github.com/tarry-mq/tarry/scheduler"
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
		link.StreamName(namespace): &left.Intake, AsideName(namespace): &standing, link.RejectsName(namespace): &left.Rejects,
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
	// SizeLimit is the limit of a push's body and headers, beside that of the target; 0 is none.
	SizeLimit int
	// Known reports whether a push has been accepted already and only its acknowledgement was lost.
	Known func(ctx context.Context, uid message.UID) (bool, error)
	// Reject, which may be nil, records a push that no instance would accept in the journal.
	Reject func(ctx context.Context, r *scheduler.Rejected) error
	Log    zerolog.Logger
}

// Carried counts the pushes and rejects that Carry moved, and the pushes that it dropped because they were known. A
// push that no instance would have accepted counts as a reject.
type Carried struct{ Pushes, Known, Rejects int }

// Carry moves a namespace's messages from one NATS to another: pushes that no instance accepted, and rejects. The
// source must not be in use meanwhile. A message is removed from the source once the target has acknowledged it, so an
// interrupted carry continues where it stopped; if an acknowledgement of the target was lost, the target recognizes the
// repeated message for two minutes. A push keeps its due time: a delay counts from the moment at which the source
// stored the push, so Carry replaces it by the time at which it ends. A push that no instance would accept becomes a
// reject: published again, it might be too large, or its Nats-* headers might make the target refuse it.
func Carry(ctx context.Context, cfg CarryConfig) (done Carried, err error) {
	source, err := jetstream.New(cfg.From)
	if err != nil {
		return done, err
	}
	target := &Intake{
		cfg: Config{Namespace: cfg.Namespace, Prefix: cfg.Prefix, Replicas: max(cfg.Replicas, 1),
			MaxBytes:    cfg.MaxBytes,
			RejectBytes: cfg.RejectBytes, RejectsPerSubject: cfg.RejectsPerSubject,
			SizeLimit: cfg.SizeLimit, Topics: &scheduler.Topics{}, Reject: cfg.Reject},
		Contents: NewContents(cfg.To, cfg.Namespace), log: cfg.Log, said: rejectLog{log: cfg.Log},
		metrics: newIntakeMetrics(nil),
	}
	target.rejects, err = rejects.NewWriter(rejects.WriterConfig{Conn: cfg.To, Namespace: cfg.Namespace,
		Prefix: cfg.Prefix,
		Topics: target.cfg.Topics, Bytes: cfg.RejectBytes, PerSubject: cfg.RejectsPerSubject})
	if err != nil {
		return done, err
	}
	if target.js, err = jetstream.New(cfg.To); err != nil {
		return done, err
	}
	if err := target.open(ctx); err != nil {
		return done, err
	}
	push := func(msg *nats.Msg, place link.Place) error {
		p, err := target.read(msg, place)
		if err != nil {
			done.Rejects++
			r := arrival{msg: msg, place: place, err: err}
			return target.keep(ctx, &r)
		}
		if known, err := cfg.Known(ctx, p.UID); err != nil {
			return err
		} else if known {
			done.Known++
			return nil
		}
		done.Pushes++
		if p.Delay > 0 {
			msg = until(msg, place.At.Add(p.Delay))
		}
		return target.put(ctx, msg, place)
	}
	err = drain(ctx, source, AsideName(cfg.Namespace), func(raw *jetstream.RawStreamMsg) error {
		msg, place, err := decodeAside(raw.Data)
		if err != nil {
			cfg.Log.Warn().Err(err).Uint64("sequence", raw.Sequence).Msg("dropped a message that no instance put aside")
			return nil
		}
		return push(msg, place)
	})
	if err != nil {
		return done, fmt.Errorf("carry the pushes put aside: %w", err)
	}
	err = drain(ctx, source, target.stream, func(raw *jetstream.RawStreamMsg) error { return push(unpacked(raw)) })
	if err != nil {
		return done, fmt.Errorf("carry the intake: %w", err)
	}
	err = drain(ctx, source, link.RejectsName(cfg.Namespace), func(raw *jetstream.RawStreamMsg) error {
		done.Rejects++
		msg, place := unpacked(raw)
		return target.put(ctx, msg, place)
	})
	if err != nil {
		return done, fmt.Errorf("carry the rejects: %w", err)
	}
	return done, nil
}

// unpacked returns a message of a stream, and its place there.
func unpacked(raw *jetstream.RawStreamMsg) (*nats.Msg, link.Place) {
	return &nats.Msg{Subject: raw.Subject, Header: raw.Header, Data: raw.Data},
		link.Place{Sequence: raw.Sequence, At: raw.Time}
}

// until returns a push whose delay is replaced by the time at which it ends.
func until(msg *nats.Msg, end time.Time) *nats.Msg {
	dated := &nats.Msg{Subject: msg.Subject, Header: nats.Header{}, Data: msg.Data}
	for name, values := range msg.Header {
		if !strings.EqualFold(name, wire.HeaderDelay) {
			dated.Header[name] = values
		}
	}
	dated.Header[wire.HeaderAt] = []string{strconv.FormatInt(int64(message.CeilMilli(end)), 10)}
	return dated
}

// put publishes a message once, however often it is repeated within the duplicate window.
func (in *Intake) put(ctx context.Context, msg *nats.Msg, place link.Place) error {
	ctx, stop := context.WithTimeout(ctx, link.APITimeout)
	defer stop()
	_, err := in.js.PublishMsg(ctx, msg,
		jetstream.WithMsgID(fmt.Sprintf("carried-%d-%d", place.At.UnixNano(), place.Sequence)))
	return err
}

// Rebucket gives each push put aside the subject of its bucket among n, in the order of the intake. No instance may
// run. It may be repeated: a push that then stands there twice is accepted once, by its place in the intake.
func Rebucket(ctx context.Context, nc *nats.Conn, namespace, prefix string, n message.Bucket) error {
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	type push struct {
		place, at uint64
		subject   string
	}
	var all []push
	err = drain(ctx, js, AsideName(namespace), func(raw *jetstream.RawStreamMsg) error {
		var tags wire.Push
		var uid message.UID
		msg, place, err := decodeAside(raw.Data)
		if err == nil {
			tags, err = wire.Decode(msg.Subject, prefix, msg.Header, len(msg.Data))
		}
		if err == nil {
			uid, err = place.UID(tags.ID, tags.Key)
		}
		if err == nil { // what is no push, an instance refuses under any subject
			all = append(all, push{place.Sequence, raw.Sequence, asideSubject(namespace, uid.Bucket(n))})
		}
		return errStays
	})
	if len(all) == 0 || err != nil {
		return err
	}
	s, err := js.Stream(ctx, AsideName(namespace))
	slices.SortFunc(all, func(a, b push) int { return cmp.Compare(a.place, b.place) })
	for i := 0; i < len(all) && err == nil; i++ {
		var raw *jetstream.RawStreamMsg
		if raw, err = s.GetMsg(ctx, all[i].at); err == nil {
			_, err = js.Publish(ctx, all[i].subject, raw.Data)
		}
		if err == nil {
			err = s.DeleteMsg(ctx, all[i].at)
		}
	}
	return err
}

// errStays keeps drain from removing a message.
var errStays = errors.New("it stays")

// drain hands every message of a stream to do, in order, and removes it from the stream once do has returned nil. If do
// returns errStays, the message stays.
func drain(ctx context.Context, js jetstream.JetStream, name string, do func(*jetstream.RawStreamMsg) error) error {
	s, err := js.Stream(ctx, name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return nil
	} else if err != nil {
		return err
	}
	for next := uint64(1); ; {
		call, stop := context.WithTimeout(ctx, 2*link.APITimeout)
		raw, err := s.GetMsg(call, next, jetstream.WithGetMsgSubject(">"))
		stop()
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return nil
		} else if err != nil {
			return err
		}
		if err = do(raw); err == nil {
			err = s.DeleteMsg(ctx, raw.Sequence)
		}
		if err != nil && !errors.Is(err, errStays) {
			return err
		}
		next = raw.Sequence + 1
	}
}
