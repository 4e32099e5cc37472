package tarry

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tarry-mq/tarry/bridge/tarry/internal/wire"
)

// outgoing is a tagged message that has been checked: its request, and the message to send to the intake.
type outgoing struct {
	push wire.Push
	msg  *nats.Msg // on the intake subject, with a Nats-Msg-Id of its own
	// fresh: nobody else can have its Nats-Msg-Id.
	fresh bool
	// again: it may repeat an earlier publish to the stream, and has no name by which that is recognized elsewhere.
	again bool
}

// rewrite checks a tagged message by the daemon's rules and builds the message for the intake. The caller's message and
// its header are not changed.
//
// A message that is already on an intake subject was rewritten before (by the caller, or by an earlier call whose
// message is sent again). It keeps its Nats-Msg-Id, so that the stream recognizes it.
func (c *Client) rewrite(m *nats.Msg) (*outgoing, error) {
	if m.Reply != "" {
		return nil, &Error{Word: WordReply, Field: "reply",
			Detail: "cannot be combined with a delay: nobody would wait for the answer"}
	}
	h := make(nats.Header, len(m.Header)+1)
	maps.Copy(h, m.Header)
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
	again, own := before && msgID != "" && p.ID == "", !before || msgID == ""
	if own {
		msgID = newMsgID()
	}
	subject, header := wire.Encode(p, c.prefix)
	header[wire.HeaderMsgID] = []string{msgID}
	return &outgoing{push: p, msg: &nats.Msg{Subject: subject, Header: header, Data: m.Data}, fresh: own,
		again: again}, nil
}

func newMsgID() string { return group(time.Now()) + "." + fresh() }

// group returns what precedes the dot in the Nats-Msg-Id of a call: calls of the same moment share it, and instances
// store those without a name in one bucket, with one script.
func group(now time.Time) string { return strconv.FormatInt(now.UnixMilli()/groupMillis, 36) }

const groupMillis = 64

// fresh returns an id that no other call ever uses.
func fresh() string { return nats.NewInbox()[len(nats.InboxPrefix):] }

// takeMsgID removes the caller's Nats-Msg-Id in upper or lower case and returns it.
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

// ADR-51, the schedules of NATS itself (nats-server 2.12 and later).
const (
	headerSchedule       = "Nats-Schedule"
	headerScheduleTarget = "Nats-Schedule-Target"
)

// translate turns "Nats-Schedule: @at <RFC 3339>" into Tarry-At and makes Nats-Schedule-Target the topic, so that a
// producer that uses NATS's own schedules needs no change. In NATS the message is published on a subject that belongs
// to the schedule; that subject has no meaning here.
func translate(h nats.Header, topic *string) (scheduled bool, err error) {
	var names []string
	for name, values := range h {
		if len(name) >= len(headerSchedule) && strings.EqualFold(name[:len(headerSchedule)], headerSchedule) &&
			len(values) > 0 {
			names = append(names, name)
		}
	}
	slices.Sort(names) // so that the same message always has the same error
	var when, target string
	for _, name := range names {
		values := h[name]
		delete(h, name)
		var into *string
		switch {
		case strings.EqualFold(name, headerSchedule):
			into = &when
		case strings.EqualFold(name, headerScheduleTarget):
			into = &target
		default:
			return false, &Error{Word: wire.WordUnsupported, Field: name,
				Detail: "is not supported; a schedule here has a time and a target"}
		}
		if len(values) > 1 || *into != "" {
			return false, &Error{Word: wire.WordRepeated, Field: name, Detail: "is given more than once"}
		}
		*into = strings.Trim(values[0], " \t")
	}
	if len(names) == 0 {
		return false, nil
	}
	at, found := strings.CutPrefix(when, "@at ")
	switch {
	case when == "":
		return false, &Error{Word: wire.WordNoDelay, Field: headerSchedule, Detail: "is empty; it needs @at and a time"}
	case !found:
		return false, &Error{Word: wire.WordUnsupported, Field: headerSchedule,
			Detail: "other than @at <RFC 3339> (@every, cron) is not supported yet"}
	case target == "":
		return false, &Error{Word: wire.WordTopic, Field: headerScheduleTarget,
			Detail: "is missing; it names the subject on which the message is due"}
	case has(h, HeaderDelay) || has(h, HeaderAt):
		return false, &Error{Word: wire.WordDelayAndAt, Field: headerSchedule,
			Detail: "and a Tarry tag are both given; a push takes one of them"}
	}
	h[HeaderAt], *topic = []string{at}, target
	return true, nil
}
