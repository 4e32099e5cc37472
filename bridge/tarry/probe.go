package tarry

import (
	"context"
	"errors"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// optionReader finds out which headers publish options would set. nats.go keeps options to itself, but writes their
// headers into the message before it looks at anything else, so a publish that is sure to go nowhere tells: a sync one
// under a context that has ended, an async one with a reply subject. Only tagged messages are read this way; see
// optionKinds.
type optionReader[O any] struct {
	publish      func(m *nats.Msg, opts []O) error // under a context that has ended
	publishAsync func(m *nats.Msg, opts []O) error
	refusal      string // what publishAsync says to a reply subject
}

// sync returns the headers, or what is wrong with the options.
func (r optionReader[O]) sync(opts []O) (nats.Header, error) {
	if len(opts) == 0 {
		return nil, nil
	}
	m := &nats.Msg{}
	if err := r.publish(m, opts); err != nil && !errors.Is(err, context.Canceled) {
		return nil, err
	}
	return m.Header, nil
}

// async is sync for the options of an asynchronous publish.
func (r optionReader[O]) async(opts []O) (nats.Header, error) {
	if len(opts) == 0 {
		return nil, nil
	}
	m := &nats.Msg{Reply: "_"}
	if err := r.publishAsync(m, opts); err != nil && err.Error() != r.refusal {
		return nil, err
	}
	return m.Header, nil
}

func jetStreamOptions(js jetstream.JetStream) optionReader[jetstream.PublishOpt] {
	over := ended()
	return optionReader[jetstream.PublishOpt]{
		publish: func(m *nats.Msg, opts []jetstream.PublishOpt) error {
			_, err := js.PublishMsg(over, m, opts...)
			return err
		},
		publishAsync: func(m *nats.Msg, opts []jetstream.PublishOpt) error {
			_, err := js.PublishMsgAsync(m, opts...)
			return err
		},
		refusal: jetstream.ErrAsyncPublishReplySubjectSet.Error(),
	}
}

func legacyOptions(js nats.JetStreamContext) optionReader[nats.PubOpt] {
	over := nats.Context(ended())
	r := optionReader[nats.PubOpt]{
		publish: func(m *nats.Msg, opts []nats.PubOpt) error {
			_, err := js.PublishMsg(m, append(opts[:len(opts):len(opts)], over)...)
			return err
		},
		publishAsync: func(m *nats.Msg, opts []nats.PubOpt) error {
			_, err := js.PublishMsgAsync(m, opts...)
			return err
		},
	}
	if err := r.publishAsync(&nats.Msg{Reply: "_"}, nil); err != nil {
		r.refusal = err.Error()
	}
	return r
}

// ended is a context that is over.
func ended() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}
