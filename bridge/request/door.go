package request

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/tarry-mq/tarry/bridge/link"
	"github.com/tarry-mq/tarry/bridge/ops"
	"github.com/tarry-mq/tarry/bridge/wire"
	"github.com/tarry-mq/tarry/scheduler/message"
)

// door is the direct door: a request on tarry.<namespace>.push.<subject> is a push by tag, with the headers and the
// body that <prefix>.<subject> takes. One instance answers it as it answers a push in JSON, once the store and, in
// sync, the journal has the message; what the intake would reject is answered as a problem. As the target stands in the
// subject, NATS permissions on tarry.<namespace>.push.orders.> decide who may schedule to orders.>.
//
// A caller that got no answer sends its request again, with the same Nats-Msg-Id, for at most a minute. The store keeps
// that id for scheduler.CallKeep, three times as long. So a request must not wait longer than that for being stored
// while another instance takes its repeat: the scheduler bounds how long it waits here, the pings of the connection
// bound how long it travels, and a process that stood still no longer takes what NATS had sent it before.
type door struct {
	*Service
	*endpoint
	prefix string        // of the subjects
	still  time.Duration // how long the process may stand still without losing what NATS has sent it
	sub    *nats.Subscription
	alive  *link.Pulse
}

const doorStill = 10 * time.Second

func (s *Service) newDoor(service *microService) *door {
	d := &door{Service: s, prefix: "tarry." + s.cfg.Namespace + ".push.", still: doorStill}
	d.endpoint = &endpoint{name: "door", subject: d.prefix + ">", handle: d.push}
	service.endpoints = append(service.endpoints, d.endpoint)
	return d
}

// open begins to take requests. What NATS has sent is not taken any more once the process stood still.
func (d *door) open() error {
	alive := link.NewPulse(d.still)
	sub, err := d.nc.QueueSubscribe(d.subject, micro.DefaultQueueGroup, func(msg *nats.Msg) {
		// A message of a server (peers.go) has a header that no push may have, and is refused.
		if strings.HasPrefix(msg.Subject, d.prefix) && (msg.Reply == "" || isInbox(msg.Reply)) && !alive.StoodStill() {
			d.endpoint.serve(msg)
		}
	})
	if err != nil {
		return fmt.Errorf("request api: listen on %s: %w", d.subject, err)
	}
	d.sub, d.alive = sub, alive
	return nil
}

// serve answers until ctx ends. After a standstill it begins anew.
func (d *door) serve(ctx context.Context) error {
	tick := time.Tick(link.PulseEvery)
	for {
		select {
		case <-tick:
			if d.alive.Beat() {
				continue
			}
			link.Unsubscribe(d.sub)
			if err := d.open(); err != nil {
				return err
			}
		case <-ctx.Done():
			if err := d.sub.Drain(); err != nil && !d.nc.IsClosed() {
				d.log.Debug().Err(err).Msg("the direct door did not close in order")
			}
			return context.Cause(ctx)
		}
	}
}

// push hands a request to the scheduler, or the many messages that it carries.
func (d *door) push(req *nats.Msg) {
	reply, size := req.Reply, len(req.Data)
	if !d.room.Try(size) {
		d.busy(reply)
		return
	}
	if count := req.Header.Get(wire.HeaderBatch); count != "" {
		d.pushMany(req, count)
		return
	}
	item := d.decode(req)
	d.accept(&item, callOf(req.Subject, req.Header), func(r ops.Result) { d.out.Put(d.result(reply, size, r)) })
}

// decode reads a push by tag from a request.
func (d *door) decode(req *nats.Msg) ops.PushItem {
	subject := wire.IntakeSubject(d.cfg.Prefix, req.Subject[len(d.prefix):])
	item := ops.PushItem{Body: req.Data}
	item.Push, item.Err = link.Decode(req, subject, d.cfg.Prefix)
	if topic := link.WholeTopic(d.cfg.Topics, &item.Push, req.Header.Get(wire.HeaderSubject)); topic != "" {
		item.Push.Topic = topic
	}
	return item
}

// pushMany does the same with each message of a batch, which has an outcome and a Nats-Msg-Id of its own.
func (d *door) pushMany(req *nats.Msg, count string) {
	parts, err := wire.DecodeBatchParts(count, req.Data)
	if err == nil {
		err = d.fits(len(parts))
	}
	if err != nil {
		d.out.Put(d.problem(req.Reply, len(req.Data), ops.ProblemOf(err)))
		return
	}
	items, calls := make([]ops.PushItem, len(parts)), make([]string, len(parts))
	for i, part := range parts {
		one := &nats.Msg{Subject: req.Subject, Data: part.Body}
		one.Header, err = nats.DecodeHeadersMsg(part.Header)
		if items[i] = d.decode(one); err != nil {
			items[i].Err = link.UnreadableHeaders()
		}
		calls[i] = callOf(req.Subject, one.Header)
	}
	d.acceptAll(req.Reply, len(req.Data), items, func(i int) string { return calls[i] })
}

// callOf returns the call that a Nats-Msg-Id identifies, among those of its topic: nobody can take the id of a push
// that somebody else may send. A push without name or key goes to the bucket of what precedes the first dot, so that a
// library can send neighbours to the same bucket, where they share a flush.
func callOf(subject string, h nats.Header) string {
	id := h.Get(wire.HeaderMsgID)
	if id == "" {
		return ""
	}
	group, _, _ := strings.Cut(id, ".")
	digest := sha256.Sum256([]byte(subject + " " + id))
	return string(append(binary.BigEndian.AppendUint16(nil, message.Hash(group)), digest[:callDigest]...))
}

// callDigest is the length of the digest in a call: in 12 bytes no two of some minutes are alike.
const callDigest = 12
