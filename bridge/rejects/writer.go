package rejects

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/tarry-mq/tarry/bridge/link"
	"github.com/tarry-mq/tarry/bridge/ops"
	"github.com/tarry-mq/tarry/bridge/wire"
	"github.com/tarry-mq/tarry/scheduler"
)

const rejectTimeout = 2 * time.Second

// WriterConfig configures a Writer.
type WriterConfig struct {
	Conn      *nats.Conn
	Namespace string
	// Prefix is the intake's prefix.
	Prefix string
	// Topics are the settings of topics; nil for none.
	Topics *scheduler.Topics
	// Bytes bounds the stream, and PerSubject the number of rejects of one subject.
	Bytes, PerSubject int64
	// Dropped, which may be nil, is called with how many older rejects of a subject, or of any if it is empty, made room.
	Dropped func(subject string, n int)
}

// Writer stores pushes that were refused in the stream of rejects.
type Writer struct {
	cfg            WriterConfig
	js             jetstream.JetStream
	intake, stream string     // names
	one            sync.Mutex // held while a reject makes room and takes it: else NATS drops one that nobody counts
	unseen         int64      // bytes stored since level last looked
}

// lookEvery is the fraction of the stream after which level looks again, and keeps free for what comes meanwhile.
const lookEvery = 64

// NewWriter returns a Writer. It does not contact the server yet.
func NewWriter(cfg WriterConfig) (*Writer, error) {
	js, err := jetstream.New(cfg.Conn)
	if err != nil {
		return nil, fmt.Errorf("use jetstream: %w", err)
	}
	return &Writer{cfg: cfg, js: js, intake: link.StreamName(cfg.Namespace), stream: link.RejectsName(cfg.Namespace)}, nil
}

// Put publishes a push that is refused because of why, and returns the word of the refusal. It publishes the push whole
// or, if the stream refuses that, only the reason, marked as incomplete. If the stream does not exist, the error is
// jetstream.ErrNoStreamResponse.
func (w *Writer) Put(ctx context.Context, push *nats.Msg, place link.Place, why error) (word string, err error) {
	ctx, stop := context.WithTimeout(ctx, rejectTimeout)
	defer stop()
	word, reason := Reason(why)
	id, msg := link.PlaceID(w.intake, place), w.whole(push, reason)
	w.one.Lock()
	defer w.one.Unlock()
	fits, err := w.makeRoom(ctx, msg)
	if err != nil {
		return word, err
	}
	if !fits {
		msg = w.bare(push, reason)
	}
	_, err = w.js.PublishMsg(ctx, msg, jetstream.WithMsgID(id))
	var refused *jetstream.APIError
	if errors.As(err, &refused) && !errors.Is(err, jetstream.ErrNoStreamResponse) {
		_, err = w.js.PublishMsg(ctx, w.bare(push, reason), jetstream.WithMsgID(id))
	}
	return word, err
}

// Reason returns the word of a refusal, and the word and its text on one line.
func Reason(why error) (word, reason string) {
	word = ops.ProblemOf(why).Word
	return word, word + ": " + oneLine(why.Error())
}

// bare returns a reject without any part of the push.
func (w *Writer) bare(push *nats.Msg, reason string) *nats.Msg {
	msg := w.rejectOf(push)
	w.annotate(msg, push, reason, false)
	return msg
}

// rejectOf returns an empty message on the subject of a reject.
func (w *Writer) rejectOf(push *nats.Msg) *nats.Msg {
	return nats.NewMsg(link.RejectsSubject(w.cfg.Namespace) + "." + firstToken(push.Subject, w.cfg.Prefix))
}

// annotate adds the reason and the original subject to a reject. If the reject is incomplete, a header says so for
// programs and the reason for people.
func (w *Writer) annotate(msg, push *nats.Msg, reason string, whole bool) {
	if !whole {
		reason += notWhole
		msg.Header[wire.HeaderIncomplete] = []string{"true"}
	}
	msg.Header[wire.HeaderReason] = []string{reason}
	msg.Header[wire.HeaderSubject] = []string{w.subjectOf(push)}
}

// Topic returns the topic that a push names, cut to what the journal holds.
func (w *Writer) Topic(push *nats.Msg) string {
	topic := strings.TrimPrefix(w.subjectOf(push), w.cfg.Prefix+".")
	return strings.ToValidUTF8(topic[:min(len(topic), 255)], "_")
}

// subjectOf returns the intake subject of a push or, for a retry that a consumer pushed to a partition, that of the
// whole topic: the push lacks the header that names it once it is a reject.
func (w *Writer) subjectOf(push *nats.Msg) string {
	tagged, err := wire.Decode(push.Subject, w.cfg.Prefix, push.Header, len(push.Data))
	if err == nil {
		if topic := link.WholeTopic(w.cfg.Topics, &tagged, push.Header.Get(wire.HeaderSubject)); topic != "" {
			return wire.IntakeSubject(w.cfg.Prefix, topic)
		}
	}
	return push.Subject
}

// rejectShare is the fraction of the stream of rejects that the large rejects of one subject may occupy, so that one
// producer cannot displace the rejects of all others.
const rejectShare = 8

// makeRoom drops older rejects of the same subject if there is the maximum number of them, or if that number, at the
// size of this one, would exceed the subject's share. makeRoom reports whether the reject fits: a reject larger than
// the share keeps no part of the push.
func (w *Writer) makeRoom(ctx context.Context, msg *nats.Msg) (fits bool, err error) {
	share, size := w.cfg.Bytes/rejectShare, int64(msg.Size())
	fit := share / size
	if fit == 0 {
		size = 0
	}
	_ = w.level(ctx, size) // else NATS drops the oldest of all
	most := w.cfg.PerSubject
	if fit > 0 {
		most = min(most, fit)
	}
	err = w.purge(ctx, link.Purge{Filter: msg.Subject, Keep: most - 1})
	var refused *link.StreamError
	if errors.As(err, &refused) && refused.ErrCode == link.CodeStreamNotFound {
		err = nil // the publish then fails as well, and the stream is created again
	}
	return fit > 0, err
}

// purge drops rejects, and tells how many.
func (w *Writer) purge(ctx context.Context, p link.Purge) error {
	var answer struct {
		Purged int `json:"purged"`
	}
	err := link.AskBriefly(ctx, w.cfg.Conn, "$JS.API.STREAM.PURGE."+w.stream, p, &answer)
	if answer.Purged > 0 && w.cfg.Dropped != nil {
		w.cfg.Dropped(p.Filter, answer.Purged)
	}
	return err
}

// level drops the oldest rejects of the fullest subject if this one does not fit into the stream. NATS would drop the
// oldest of all, and a producer that uses many first tokens would push out everybody's. level looks only now and then,
// because the list of subjects may be long.
func (w *Writer) level(ctx context.Context, size int64) error {
	often := w.cfg.Bytes / lookEvery
	if w.unseen += size + rejectOwn; w.unseen < often && w.unseen > size+rejectOwn {
		return nil
	}
	w.unseen = 1
	var info struct {
		State struct {
			Messages int64            `json:"messages"`
			First    uint64           `json:"first_seq"`
			Bytes    int64            `json:"bytes"`
			Subjects map[string]int64 `json:"subjects"`
		} `json:"state"`
	}
	ask := map[string]string{"subjects_filter": link.RejectsSubject(w.cfg.Namespace) + ".>"}
	err := link.AskBriefly(ctx, w.cfg.Conn, link.APIStreamInfo+w.stream, ask, &info)
	at := &info.State
	over := at.Bytes + size + rejectOwn + 4*often - w.cfg.Bytes // others store some meanwhile
	if err != nil || over <= 0 || at.Messages == 0 {
		return err
	}
	fullest := ""
	for subject, n := range at.Subjects {
		if most := at.Subjects[fullest]; n > most || n == most && subject < fullest {
			fullest = subject
		}
	}
	drop := over/(at.Bytes/at.Messages) + 1
	if keep := at.Subjects[fullest] - drop; keep > 0 {
		return w.purge(ctx, link.Purge{Filter: fullest, Keep: keep})
	}
	return w.purge(ctx, link.Purge{Below: at.First + uint64(drop)}) // all are short: the oldest go
}

const (
	// rejectOwn is the space that a reject needs in addition to the push: two headers of ours, the message id, and the
	// framing.
	rejectOwn = 1024
	// rejectHeaders bounds all headers: a stream accepts no more than 64 KiB.
	rejectHeaders = 60 << 10
	notWhole      = "; not all of it fits here"
)

// whole returns a push in the form of a reject: with the reason, and as much of its headers and its body as fits into
// one message. It omits headers that would act on the stream of rejects or on its readers, or that no client could have
// sent.
func (w *Writer) whole(push *nats.Msg, reason string) *nats.Msg {
	msg := w.rejectOf(push)
	own := rejectOwn + len(push.Subject) + len(reason)
	room, whole := int(w.cfg.Conn.MaxPayload())-own, true
	if body := push.Data; len(body) <= room {
		msg.Data = body
		room -= len(body)
	} else {
		whole = false
	}
	room = min(room, rejectHeaders-own)
	for name, values := range push.Header {
		if !wire.IsHeaderName(name) || strings.HasPrefix(strings.ToLower(name), "nats-") ||
			strings.EqualFold(name, wire.HeaderReason) || strings.EqualFold(name, wire.HeaderSubject) ||
			strings.EqualFold(name, wire.HeaderIncomplete) ||
			strings.EqualFold(name, link.HeaderStatus) && len(msg.Data) == 0 {
			continue
		}
		cost := 0
		for _, v := range values {
			cost += len(name) + len(v) + len(": \r\n")
		}
		if cost <= room {
			room -= cost
			msg.Header[name] = values
		} else {
			whole = false
		}
	}
	w.annotate(msg, push, reason, whole)
	return msg
}

// firstToken returns the first token of the topic that an intake subject names. A producer may publish to a literal
// wildcard; in a subject of ours it would be one, and a purge of it would take everybody's rejects.
func firstToken(subject, prefix string) string {
	topic := strings.TrimPrefix(strings.TrimPrefix(subject, prefix), ".")
	first, _, _ := strings.Cut(topic, ".")
	if first == "*" || first == ">" {
		return "_"
	}
	return first
}

// oneLine makes a text fit for a header: it truncates the text and replaces control characters. Values in the text are
// already quoted.
func oneLine(s string) string {
	const limit = 300
	if len(s) > limit {
		s = strings.ToValidUTF8(s[:limit], "") + "..."
	}
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, s)
}
