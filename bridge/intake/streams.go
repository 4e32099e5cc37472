package intake

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tarry-mq/tarry/bridge/link"
	"github.com/tarry-mq/tarry/bridge/wire"
)

const (
	duplicateWindow = 2 * time.Minute
	rejectsAge      = 7 * 24 * time.Hour
)

// open makes sure that all streams and the consumer exist with the right configuration. ErrRefused means that an
// operator has to change something; ErrNoJetStream means that there is no JetStream; any other error may be temporary.
func (in *Intake) open(ctx context.Context) error {
	if !in.nc.IsConnected() {
		return nats.ErrDisconnected
	}
	ctx, stop := context.WithTimeout(ctx, 4*link.APITimeout)
	defer stop()
	for _, want := range []jetstream.StreamConfig{in.wanted(), in.wantedRejects(), in.wantedAside()} {
		if err := in.ensure(ctx, want); err != nil {
			return err
		}
	}
	if !in.enabled.Swap(true) {
		in.log.Info().Str("stream", in.stream).Str("subjects", in.cfg.Prefix+".>").Str("rejects",
			link.RejectsName(in.cfg.Namespace)).Msg(
			"intake is open")
	}
	return nil
}

// wanted returns the configuration of the intake stream.
func (in *Intake) wanted() jetstream.StreamConfig {
	c := in.basis(in.stream, in.cfg.Prefix+".>", "messages tagged for tarry")
	c.Retention = jetstream.WorkQueuePolicy
	return c
}

func (in *Intake) wantedRejects() jetstream.StreamConfig {
	c := in.basis(link.RejectsName(in.cfg.Namespace), link.RejectsSubject(in.cfg.Namespace)+".>",
		"what tarry could not accept")
	c.Discard, c.MaxAge = jetstream.DiscardOld, rejectsAge
	c.MaxBytes, c.MaxMsgsPerSubject = in.cfg.RejectBytes, in.cfg.RejectsPerSubject
	return c
}

// wantedAside returns the configuration of the stream of pushes put aside. They do not share the intake stream: there a
// producer's Nats-Msg-Id could equal the one of a push put aside, which would then be lost as a duplicate.
func (in *Intake) wantedAside() jetstream.StreamConfig {
	return in.basis(AsideName(in.cfg.Namespace), AsideSubject(in.cfg.Namespace)+".*",
		"pushes whose bucket does not answer")
}

// basis returns the configuration that the streams share: they store messages on disk, and refuse more when they are
// full.
func (in *Intake) basis(name, subjects, about string) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name: name, Subjects: []string{subjects}, Description: about + ", namespace " + in.cfg.Namespace,
		Retention: jetstream.LimitsPolicy, Storage: jetstream.FileStorage, Discard: jetstream.DiscardNew,
		MaxMsgs: -1, MaxBytes: in.cfg.MaxBytes, MaxMsgsPerSubject: -1, MaxMsgSize: -1, MaxConsumers: -1,
		Replicas: in.cfg.Replicas, Duplicates: duplicateWindow,
	}
}

// ensure creates a stream, or makes an existing one fit.
func (in *Intake) ensure(ctx context.Context, want jetstream.StreamConfig) error {
	s, err := in.js.Stream(ctx, want.Name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		if _, err = in.js.CreateStream(ctx, want); err == nil {
			in.log.Info().Str("stream", want.Name).Strs("subjects", want.Subjects).Msg("stream created")
			return nil
		}
		if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
			return fmt.Errorf("create stream %s: another instance was faster: %w", want.Name, err)
		}
		return in.explain(ctx, want, fmt.Errorf("create stream %s: %w", want.Name, err))
	} else if err != nil {
		return in.explain(ctx, want, fmt.Errorf("look up stream %s: %w", want.Name, err))
	}
	info := s.CachedInfo()
	next, changes, err := adapt(info.Config, want, info.State)
	if err != nil || len(changes) == 0 {
		return err
	}
	if _, err := in.js.UpdateStream(ctx, next); err != nil {
		return in.explain(ctx, want,
			fmt.Errorf("change %s of stream %s: %w", strings.Join(changes, ", "), want.Name, err))
	}
	in.log.Info().Str("stream", want.Name).Strs("changed", changes).Msg("stream adapted")
	return nil
}

// adapt returns an existing stream's configuration with the settings that matter here corrected, and the names of the
// settings that it changed. It refuses a change that is impossible or would lose messages.
func adapt(have, want jetstream.StreamConfig,
	state jetstream.StreamState) (next jetstream.StreamConfig, changes []string, err error) {
	refuse := func(what string) (jetstream.StreamConfig, []string, error) {
		return have, nil, fmt.Errorf("%w: stream %s exists and %s; remove or rename it", ErrRefused,
			want.Name, what)
	}
	switch {
	case have.Retention != want.Retention:
		return refuse(fmt.Sprintf("has the retention policy %s, where %s is needed", have.Retention, want.Retention))
	case have.Storage != want.Storage:
		return refuse(fmt.Sprintf("is kept in %s, where %s is needed", have.Storage, want.Storage))
	case have.Sealed:
		return refuse("is sealed")
	case have.Mirror != nil || len(have.Sources) > 0:
		return refuse("copies other streams")
	case have.AllowMsgSchedules:
		return refuse("has NATS's own message schedules on")
	case have.SubjectTransform != nil:
		return refuse("transforms its subjects")
	case have.AllowMsgTTL: // a push with Nats-TTL would expire, and no update can turn this off
		return refuse("lets messages expire by a header")
	case have.PersistMode != want.PersistMode:
		return refuse("acknowledges before it has written")
	}
	next = have
	if !slices.Equal(have.Subjects, want.Subjects) {
		if state.Msgs > 0 {
			return have, nil, fmt.Errorf(
				"%w: stream %s holds %d messages for the subjects %s, the setting nats.prefix asks for %s; "+
					"let an instance with the old prefix empty it first, or set nats.prefix back", ErrRefused,
				want.Name, state.Msgs,
				strings.Join(have.Subjects, ", "), strings.Join(want.Subjects, ", "))
		}
		next.Subjects = want.Subjects
		changes = append(changes, "subjects")
	}
	change := func(name string, differs bool, apply func()) {
		if differs {
			apply()
			changes = append(changes, name)
		}
	}
	change("discard", have.Discard != want.Discard, func() { next.Discard = want.Discard })
	change("max_age", have.MaxAge != want.MaxAge, func() { next.MaxAge = want.MaxAge })
	change("max_msgs", have.MaxMsgs > 0, func() { next.MaxMsgs = -1 })
	change("max_msgs_per_subject", max(have.MaxMsgsPerSubject, 0) != max(want.MaxMsgsPerSubject, 0),
		func() { next.MaxMsgsPerSubject = want.MaxMsgsPerSubject })
	change("max_msg_size", have.MaxMsgSize > 0, func() { next.MaxMsgSize = -1 })
	change("replicas", have.Replicas != want.Replicas, func() { next.Replicas = want.Replicas })
	change("no_ack", have.NoAck, func() { next.NoAck = false })
	// One push with Nats-Rollup would remove all others.
	change("allow_rollup_hdrs", have.AllowRollup, func() { next.AllowRollup = false })
	change("republish", have.RePublish != nil, func() { next.RePublish = nil })
	change("discard_new_per_subject", have.DiscardNewPerSubject, func() { next.DiscardNewPerSubject = false })
	change("consumer_limits", have.ConsumerLimits != (jetstream.StreamConsumerLimits{}), func() {
		next.ConsumerLimits = jetstream.StreamConsumerLimits{}
	})
	change("duplicate_window", have.Duplicates < want.Duplicates, func() { next.Duplicates = want.Duplicates })
	// The server removes the messages beyond a lowered limit, whatever the discard policy.
	shrinks := want.MaxBytes > 0 && state.Bytes > uint64(want.MaxBytes) && want.Discard == jetstream.DiscardNew
	change("max_bytes", max(have.MaxBytes, 0) != max(want.MaxBytes, 0) && !shrinks, func() {
		next.MaxBytes = want.MaxBytes
	})
	return next, changes, nil
}

// The server's codes that require an operator's action.
const (
	codeSubjectOverlap      = 10065
	codeReplicasUnsupported = 10074
	codeStorageExceeded     = 10047
	codeMaxBytesRequired    = 10113
	codeMaxBytesExceeded    = 10122
	codeNoLimits            = 10120
)

// explain names the setting behind the server's refusal.
func (in *Intake) explain(ctx context.Context, want jetstream.StreamConfig, err error) error {
	if errors.Is(err, nats.ErrNoResponders) || errors.Is(err, jetstream.ErrJetStreamNotEnabled) ||
		errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount) {
		return fmt.Errorf("%w: %w", link.ErrNoJetStream, err)
	}
	var api *jetstream.APIError
	if !errors.As(err, &api) {
		return err
	}
	switch int(api.ErrorCode) {
	case codeSubjectOverlap:
		return fmt.Errorf("%w: %w: %s", ErrRefused, err, in.overlap(ctx, want))
	case codeReplicasUnsupported:
		return fmt.Errorf("%w: %w: the setting nats.intake.replicas is %d", ErrRefused, err, want.Replicas)
	case codeStorageExceeded, codeMaxBytesRequired, codeMaxBytesExceeded, codeNoLimits:
		return fmt.Errorf("%w: %w: the setting nats.intake.max_bytes is %d", ErrRefused, err,
			max(want.MaxBytes, 0))
	}
	return err
}

// overlap names the stream that already holds some of our subjects.
func (in *Intake) overlap(ctx context.Context, want jetstream.StreamConfig) string {
	const remedy = "; set nats.prefix to one that no other stream and no other namespace has"
	streams, _, _ := link.ListStreams(ctx, in.nc) // without the list the error names no stream
	for i := range streams {
		c := &streams[i].Config
		for _, filter := range c.Subjects {
			if c.Name == want.Name || !wire.Overlap(filter, want.Subjects[0]) {
				continue
			}
			who := "stream " + c.Name
			if ns, ours := strings.CutPrefix(c.Name, link.StreamPrefix); ours {
				who += ", the intake of namespace " + strings.TrimPrefix(ns, "REJECTED_") + ","
			}
			return fmt.Sprintf("%s holds %s%s", who, filter, remedy)
		}
	}
	return "another stream holds a part of " + strings.Join(want.Subjects, ", ") + remedy
}

// consumer creates or updates the consumer that all instances share.
func (in *Intake) consumer(ctx context.Context) (jetstream.Consumer, error) {
	ctx, stop := context.WithTimeout(ctx, 2*link.APITimeout)
	defer stop()
	c, err := in.js.CreateOrUpdateConsumer(ctx, in.stream, jetstream.ConsumerConfig{
		Durable: consumerName, Description: "all instances of tarry", DeliverPolicy: jetstream.DeliverAllPolicy,
		AckPolicy: jetstream.AckExplicitPolicy,
		AckWait:   in.cfg.AckWait, MaxDeliver: -1, MaxAckPending: in.ackPending,
	})
	if err != nil {
		return nil, fmt.Errorf("consumer %s of stream %s: %w", consumerName, in.stream, err)
	}
	return c, nil
}
