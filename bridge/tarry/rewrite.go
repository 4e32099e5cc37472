package tarry

import (
	"maps"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tarry-mq/tarry/bridge/tarry/internal/wire"
)

// outgoing is a tagged message that has been checked: what it asks for, and how it goes to the intake.
type outgoing struct {
	push wire.Push
	msg  *nats.Msg // on the intake subject, with a Nats-Msg-Id of its own
}

// rewrite checks a tagged message by the daemon's rules and builds what goes to the intake. The caller's message and
// its header stay as they are. extra are headers that publish options would have set; they win, as they do in nats.go.
//
// A message that already stands on an intake subject was rewritten before (by hand, or it is an earlier one being sent
// again) and keeps its Nats-Msg-Id, so that the stream can tell that it has it.
func (c *Client) rewrite(m *nats.Msg, extra nats.Header) (*outgoing, error) {
	if m.Reply != "" {
		return nil, &Error{Word: WordReply, Field: "reply",
			Detail: "cannot go with a delay: nobody would wait for the answer"}
	}
	h := make(nats.Header, len(m.Header)+len(extra)+1)
	maps.Copy(h, m.Header)
	for name, values := range extra {
		remove(h, name)
		h[name] = values
	}
	topic, before := strings.CutPrefix(m.Subject, c.prefix+".")
	msgID, err := takeMsgID(h)
	if err != nil {
		return nil, err
	}
	scheduled, err := translate(h, &topic)
	if err != nil {
		return nil, err
	}
	atHeader := HeaderAt
	if scheduled {
		atHeader = headerSchedule
	}
	if !before && msgID != "" && !has(h, HeaderID) {
		h[HeaderID] = []string{msgID}
	}
	p, err := wire.Decode(wire.IntakeSubject(c.prefix, topic), c.prefix, h, len(m.Data))
	if err == nil && p.HasAt {
		err = wire.CheckDue(p.At, time.Now())
	}
	if err != nil {
		e := refusal(err)
		if e.Word == wire.WordAt {
			e.Field = atHeader
		}
		return nil, e
	}
	if err := p.CheckSize(len(m.Data), c.nc.MaxPayload()); err != nil {
		return nil, refusal(err)
	}
	if !before || msgID == "" {
		msgID = fresh()
	}
	subject, header := wire.Encode(p, c.prefix)
	header[wire.HeaderMsgID] = []string{msgID}
	return &outgoing{push: p, msg: &nats.Msg{Subject: subject, Header: header, Data: m.Data}}, nil
}

// fresh is an id that no other call will ever use.
func fresh() string { return nats.NewInbox()[len(nats.InboxPrefix):] }

// takeMsgID removes the caller's Nats-Msg-Id, in whatever case.
func takeMsgID(h nats.Header) (string, error) {
	id, found := "", false
	for name, values := range h {
		if !strings.EqualFold(name, wire.HeaderMsgID) {
			continue
		}
		if delete(h, name); len(values) == 0 {
			continue
		}
		if found || len(values) > 1 {
			return "", &Error{Word: wire.WordRepeated, Field: wire.HeaderMsgID, Detail: "is given more than once"}
		}
		id, found = values[0], true
	}
	return id, nil
}
