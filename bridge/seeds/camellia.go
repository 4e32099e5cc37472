package seeds

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/tarry-mq/tarry/bridge/api"
	"github.com/tarry-mq/tarry/bridge/ops"
	"github.com/tarry-mq/tarry/bridge/wire"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

// The routes of camellia-delay-queue, for its clients: forms, answered with HTTP 200 and a code of its own. Only what
// concerns the request as a whole has another status: its origin, its method and the caller's rights. docs/seeds.md
// tells what differs.

const (
	camelliaPrefix = "/camellia/delayQueue/"
	camelliaLong   = camelliaPrefix + "longPollingMsg"
)

// The codes of camellia.
const (
	camelliaOK       = 200
	camelliaBad      = 400
	camelliaNotThere = 404
	camelliaFailed   = 500
)

// The states of camellia's messages.
const (
	camelliaWaiting = iota + 1
	camelliaReady
	camelliaLeased
	camelliaAcked
	camelliaExpired // no consumer had it
	camelliaTried   // consumers had it, and none acknowledged it
	camelliaDeleted
)

// What camellia's server takes for what a request leaves out. A lease of 30 s is tarry's default, too.
const (
	camelliaWait  = 10 * time.Second
	camelliaTTL   = time.Hour
	camelliaRetry = 10
)

// The headers of a message that keep its first due time, which every retry moves, and when that began to count, in ms.
const (
	camelliaDue  = "Camellia-Trigger-Time"
	camelliaMade = "Camellia-Produce-Time"
)

type camelliaMessage struct {
	Topic       string `json:"topic"`
	MsgID       string `json:"msgId"`
	Msg         string `json:"msg"`
	MsgBase64   []byte `json:"msgBase64,omitempty"` // of a content that is no text, which other doors take
	ProduceTime int64  `json:"produceTime"`         // times in ms since 1970
	TriggerTime int64  `json:"triggerTime,omitempty"`
	ExpireTime  int64  `json:"expireTime,omitempty"` // ten years later where the message has no end
	MaxRetry    *int   `json:"maxRetry,omitempty"`
	Retry       *int   `json:"retry,omitempty"`
	Status      int    `json:"status"`
}

type camelliaAnswer struct {
	Code    int                `json:"code"`
	Msg     string             `json:"msg,omitempty"`
	Message *camelliaMessage   `json:"delayMsg,omitempty"`
	List    *[]camelliaMessage `json:"delayMsgList,omitempty"`
	Data    any                `json:"data,omitempty"`
}

// camelliaCall does one of camellia's requests and returns what to answer besides the code.
type camelliaCall func(ctx context.Context, r *http.Request, f *form) (camelliaAnswer, error)

// camellia are the routes of camellia.
type camellia struct {
	*door
	stats *Stats
	backs camelliaBacks
}

func (s *camellia) routes() []api.Route {
	call := func(method, name string, right ops.Right, do camelliaCall) api.Route {
		return api.Route{Pattern: method + " " + camelliaPrefix + name, Right: right, Serve: s.served(do)}
	}
	return []api.Route{
		call("POST", "sendMsg", ops.RightPush, s.send),
		call("POST", "deleteMsg", ops.RightChange, s.delete),
		call("POST", "ackMsg", ops.RightPull, s.ack),
		call("POST", "getMsg", ops.RightLook, s.get),
		call("GET", "getMonitorData", ops.RightRead, s.monitorData),
		call("GET", "getTopicInfo", ops.RightRead, s.topicInfo),
		call("GET", "getTopicInfoList", ops.RightRead, s.topicInfoList),
		{Pattern: "POST " + camelliaPrefix + "pullMsg", Right: ops.RightPull, Serve: s.pull(false)},
		{Pattern: "POST " + camelliaPrefix + "longPollingMsg", Right: ops.RightPull, Serve: s.pull(true), Late: time.Second},
		{Pattern: "GET /camellia/health/status", Serve: s.health(true)},
		{Pattern: "GET /camellia/health/check", Serve: s.health(false)},
	}
}

// served returns the handler of one of camellia's requests.
func (s *camellia) served(do camelliaCall) api.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		f, release, err := s.form(w, r)
		if err != nil {
			return s.refuse(w, r, err)
		}
		defer release()
		ctx, stop := context.WithTimeout(r.Context(), s.ops.Timeout)
		defer stop()
		a, err := do(ctx, r, f)
		if err != nil {
			return s.refuse(w, r, err)
		}
		if a.Code = camelliaOK; a.Data == nil {
			a.Msg = "success"
		}
		return s.RespondValue(w, http.StatusOK, a)
	}
}

// health answers probes: that the instance serves, or if it is asked that it can accept a push.
func (s *camellia) health(asks bool) api.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		code := camelliaOK
		if asks && !s.Accepts(r.Context()) {
			code = camelliaFailed
		}
		return s.RespondValue(w, code, camelliaAnswer{Code: code})
	}
}

// refuse answers with the code for an error.
func (s *camellia) refuse(w http.ResponseWriter, r *http.Request, err error) error {
	known := s.ops.Judge(api.CallerOf(r), err)
	a := camelliaAnswer{Code: camelliaBad, Msg: known.Detail}
	switch {
	case known.Status == http.StatusForbidden:
		return err
	case known.Status == http.StatusNotFound:
		a.Code = camelliaNotThere
	case known.Status >= http.StatusInternalServerError:
		a.Code = camelliaFailed
	}
	return s.RespondValue(w, http.StatusOK, a)
}

// form are the fields of a request, read one by one. The first that cannot be read is its error.
type form struct {
	url.Values
	err error
}

// form reads the fields of a form and of the query, whose room release gives back.
func (s *camellia) form(w http.ResponseWriter, r *http.Request) (f *form, release func(), err error) {
	body, release, err := s.Read(w, r)
	if err != nil {
		return nil, nil, err
	}
	if f, err = readForm(string(body), r.URL.RawQuery); err != nil {
		release()
	}
	return f, release, err
}

func readForm(body, more string) (*form, error) {
	values, err := url.ParseQuery(body)
	if err != nil {
		return nil, ops.Refuse(http.StatusBadRequest, ops.WordQuery, "the form cannot be read; it needs percent encoding")
	}
	query, err := url.ParseQuery(more)
	if err != nil {
		return nil, ops.Refuse(http.StatusBadRequest, ops.WordQuery, "the query cannot be read; it needs percent encoding")
	}
	for name, more := range query {
		values[name] = append(values[name], more...)
	}
	for name, given := range values {
		if len(given) > 1 {
			return nil, ops.Refuse(http.StatusBadRequest, ops.WordQuery, "%.40q is given more than once", name)
		}
	}
	return &form{Values: values}, nil
}

func (f *form) refuse(name, format string, args ...any) {
	if f.err == nil {
		f.err = ops.Refuse(http.StatusBadRequest, "invalid_"+name, name+" "+format, args...)
	}
}

// need returns a field that must be there.
func (f *form) need(name string) string {
	if !f.Has(name) {
		f.refuse(name, "is missing")
	}
	return f.Get(name)
}

// topic returns the one topic that the request is about.
func (f *form) topic() string {
	topic := f.need("topic")
	if err := wire.CheckOneTopic(topic); f.err == nil {
		f.err = err
	}
	return topic
}

// id returns the producer's name of the message.
func (f *form) id(name string) string {
	id := f.need(name)
	var bad *wire.Error
	if f.err == nil && errors.As(wire.CheckID(id), &bad) {
		f.refuse(name, "%s", bad.Detail)
	}
	return id
}

// number returns a whole number, cut to the bounds. Where it is absent or negative it is the fallback.
func (f *form) number(name string, fallback, least, most int64) int64 {
	if f.Get(name) == "" {
		return fallback
	}
	n, err := strconv.ParseInt(f.Get(name), 10, 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) { // beyond the range n is the nearest
		f.refuse(name, "%.40q is not a whole number", f.Get(name))
	}
	if n < 0 {
		return fallback
	}
	return min(max(n, least), most)
}

// millis returns a time in ms, or 0 where none is given.
func (f *form) millis(name string, most time.Duration) time.Duration {
	return time.Duration(f.number(name, 0, 0, most.Milliseconds())) * time.Millisecond
}

// camelliaRef names the message with a msgId on a topic.
func camelliaRef(r *http.Request, topic, id string) (scheduler.Ref, error) {
	ref, err := ops.Ref(ops.Named{ID: id, Topic: topic, Key: new("")})
	ref.Viewer = api.CallerOf(r).Viewer()
	return ref, err
}

// send pushes a message for pull, unless the settings of its topic say otherwise. If a message of this name
// lives, it is the answer.
func (s *camellia) send(ctx context.Context, r *http.Request, f *form) (camelliaAnswer, error) {
	var a camelliaAnswer
	now := s.ops.Now()
	p := wire.Push{Topic: f.topic(), Deliver: wire.PullWord}
	body := []byte(f.need("msg"))
	if len(body) == 0 {
		f.refuse("msg", "is empty")
	} else if !utf8.Valid(body) {
		f.refuse("msg", "is not valid UTF-8")
	}
	if f.Get("delayMillis") == "" {
		f.refuse("delayMillis", "is missing")
	}
	delay := f.millis("delayMillis", wire.MaxDelay)
	p.At, p.HasAt = now.Add(delay), true
	due := message.CeilMilli(p.At)
	usual := cmp.Or(s.topics.Of(p.Topic), &scheduler.Topic{}) // what its own server's settings say there
	p.TTL = cmp.Or(f.millis("ttlMillis", wire.MaxDelay), usual.TTL, camelliaTTL)
	retries := f.number("maxRetry", -1, 0, wire.MaxRetries)
	if retries < 0 && usual.Retry.Empty() {
		retries = camelliaRetry
	}
	switch {
	case retries == 0:
		p.Retry.None = true
	case retries > 0:
		p.Retry.Delays = make([]time.Duration, retries)
	}
	if f.Get("msgId") != "" { // its SDK sends an empty one for none
		p.ID, p.OnDuplicate = f.id("msgId"), wire.Keep
	}
	if f.err != nil {
		return a, f.err
	}
	if s.isMQ(p.Topic) {
		p.Deliver = wire.MQ
	} else {
		p.Headers = []wire.Header{{Name: camelliaMade, Value: strconv.FormatInt(int64(due)-delay.Milliseconds(), 10)},
			{Name: camelliaDue, Value: strconv.FormatInt(int64(due), 10)}}
	}
	if err := s.ops.MayAccept(api.CallerOf(r), &ops.PushItem{Push: p, Body: body,
		Err: p.Check(s.ops.Prefix)}); err != nil {
		return a, err
	}
	if p.ID != "" {
		ref, err := camelliaRef(r, p.Topic, p.ID)
		if err != nil {
			return a, err
		}
		// Where the look-up fails, the push itself decides.
		if first, err := s.ops.Service.Get(ctx, ref); err == nil && !first.State.Ended() && !s.gone(ctx, &first) {
			s.stats.of(p.Topic, func(c *camelliaCounts) { c.Sent++ })
			a.Message = s.shown(r, &first, false)
			return a, nil
		} else if ref.UID != "" {
			return a, ops.Refuse(http.StatusBadRequest, "invalid_msgId",
				"msgId %s has the form of this server's own; only one that lives can be sent again", p.ID)
		}
	}
	push := ops.Push(&p, body)
	accepted := s.ops.Service.AcceptAll(ctx, []*scheduler.Push{push})[0]
	if result := ops.Accepted(accepted, s.ops.Durable); result.Problem != nil {
		return a, &ops.Refused{Problem: *result.Problem}
	}
	s.stats.of(p.Topic, func(c *camelliaCounts) { c.Sent++ })
	info := message.Info{State: accepted.State, Message: message.Message{UID: accepted.UID, ID: p.ID, Topic: p.Topic,
		Body: body, Due: accepted.Due, TTL: p.TTL, Retry: push.Retry, Headers: push.Headers, Attempt: 1}}
	if accepted.Merged || accepted.Duplicate { // a push in between
		first, err := s.ops.Service.Get(ctx, scheduler.Ref{UID: accepted.UID, Topic: p.Topic})
		if err != nil {
			return a, err
		}
		a.Message = s.shown(r, &first, false)
		return a, nil
	}
	a.Message = s.message(&info, false)
	return a, nil
}

// shown is message for a look-up: a caller that may only push sees no content.
func (s *camellia) shown(r *http.Request, i *message.Info, row bool) *camelliaMessage {
	if !api.CallerOf(r).MaySee() {
		i.Body = nil
	}
	return s.message(i, row)
}

// isMQ reports whether the settings send a topic's messages to NATS, and say so aloud.
func (s *camellia) isMQ(topic string) bool {
	one := s.topics.Of(topic)
	return one != nil && one.Deliver == scheduler.DeliverMQ
}

// message returns a message in camellia's form. Of one that has ended it leaves out what is not known; row says
// that the journal has told what it was.
func (s *camellia) message(i *message.Info, row bool) *camelliaMessage {
	m := &camelliaMessage{Topic: i.Topic, MsgID: ops.InfoOf(i).ID, Msg: string(i.Body),
		ProduceTime: i.UID.Time().UnixMilli(), TriggerTime: int64(i.Due), Status: s.status(i)}
	if i.Key != "" { // other doors give keys, within which names are unique
		m.MsgID = string(i.UID)
	}
	if !utf8.Valid(i.Body) {
		m.Msg, m.MsgBase64 = "", i.Body
	}
	if m.Retry = new(int(i.Tries())); row || !i.State.Ended() || i.State.Kept() {
		schedule := s.topics.Schedule(&i.Retry, i.Topic)
		m.MaxRetry = new(len(schedule.Delays))
	} else if i.Mark.Refusals > 0 { // it may be that of a retry
		m.TriggerTime = 0
	}
	for _, h := range i.Headers {
		switch at, err := strconv.ParseInt(h.Value, 10, 64); {
		case err != nil:
		case h.Name == camelliaMade:
			m.ProduceTime = at
		case h.Name == camelliaDue && at <= m.TriggerTime && *m.Retry > 0:
			m.TriggerTime = at
		}
	}
	if m.TriggerTime > 0 {
		m.ExpireTime = m.TriggerTime + cmp.Or(i.TTL, wire.MaxDelay).Milliseconds()
	}
	return m
}

func (s *camellia) status(i *message.Info) int {
	switch i.State {
	case message.StateInFlight:
		return camelliaLeased
	case message.StateDelivered:
		return camelliaAcked
	case message.StateDead:
		return camelliaTried
	case message.StateCanceled:
		return camelliaDeleted
	case message.StateExpired:
		if i.Kind == message.KindTried {
			return camelliaTried
		}
		return camelliaExpired
	}
	if i.State == message.StateReady || i.Due <= message.Milli(s.ops.Now().UnixMilli()) {
		return camelliaReady
	}
	return camelliaWaiting
}

// camelliaNamed reads the topic and the msgId of a request, and returns a reference to that message.
func camelliaNamed(r *http.Request, f *form) (scheduler.Ref, error) {
	topic, id := f.topic(), f.id("msgId")
	if f.err != nil {
		return scheduler.Ref{}, f.err
	}
	return camelliaRef(r, topic, id)
}

// delete cancels a message that waits. What a consumer holds is handed out no more. What has ended is not there
// to be deleted.
func (s *camellia) delete(ctx context.Context, r *http.Request, f *form) (camelliaAnswer, error) {
	ref, err := camelliaNamed(r, f)
	topic := ref.Topic
	if err == nil {
		ref, err = s.ops.Permitted(ctx, api.CallerOf(r), ref)
	}
	if err != nil {
		return camelliaAnswer{}, err
	}
	result, err := s.ops.Service.Cancel(ctx, ref)
	held := scheduler.ErrNotLeased
	if err == nil && result.Code == scheduler.CancelInFlight && result.Info.Pull {
		_, held = s.ops.Service.SettleHeld(ctx, ref, scheduler.Discard)
	}
	if held != nil && (err == nil || errors.Is(err, scheduler.ErrUnknownID)) {
		if _, refused := ops.Cancel(f.Get("msgId"), &result); refused != nil {
			err = ops.Refuse(http.StatusNotFound, refused.Word, "not deleted: %s", refused.Detail)
		}
	}
	if err == nil {
		s.stats.of(topic, func(c *camelliaCounts) { c.Deleted++ })
	}
	return camelliaAnswer{}, err
}

// ack ends the lease in force of a message, whoever holds it: camellia has no receipts.
func (s *camellia) ack(ctx context.Context, r *http.Request, f *form) (camelliaAnswer, error) {
	ref, err := camelliaNamed(r, f)
	ack := true
	if given := f.Get("ack"); given != "" && err == nil {
		var bad error
		if ack, bad = strconv.ParseBool(strings.ToLower(given)); bad != nil {
			f.refuse("ack", "%.40q is neither true nor false", given)
			err = f.err
		}
	}
	if err == nil {
		err = api.CallerOf(r).MayPull(ref.Topic)
	}
	if err != nil {
		return camelliaAnswer{}, err
	}
	ref.Viewer = nil // the right to pull covers the topic
	if ack {
		_, err = s.ops.Service.SettleHeld(ctx, ref, scheduler.Ack)
	} else {
		err = s.sendBack(ctx, ref)
	}
	switch {
	case errors.Is(err, scheduler.ErrNotLeased):
		err = ops.Refuse(http.StatusNotFound, ops.WordNotLeased, "nothing was acknowledged: %v", err)
	case err == nil:
		s.stats.of(ref.Topic, func(c *camelliaCounts) { c.Acked++ })
	}
	return camelliaAnswer{}, err
}

func (s *camellia) get(ctx context.Context, r *http.Request, f *form) (camelliaAnswer, error) {
	ref, err := camelliaNamed(r, f)
	if err != nil {
		return camelliaAnswer{}, err
	}
	info, err := s.ops.Service.Get(ctx, ref)
	if err != nil {
		return camelliaAnswer{}, err
	}
	row := false
	if info.State.Ended() && s.ops.Journal != nil {
		if was, err := s.ops.Journal.Whole(ctx, info.UID); err == nil {
			row, info.Message = true, was.Message
		}
	}
	s.stats.of(ref.Topic, func(c *camelliaCounts) { c.Got++ })
	m := s.shown(r, &info, row)
	if s.gone(ctx, &info) {
		m.Status = camelliaDeleted
	}
	return camelliaAnswer{Message: m}, nil
}

// gone reports whether a message that a consumer holds was deleted.
func (s *camellia) gone(ctx context.Context, i *message.Info) bool {
	if i.State != message.StateInFlight || !i.Pull {
		return false
	}
	held, err := s.ops.Service.LeaseOf(ctx, scheduler.Ref{UID: i.UID, Topic: i.Topic})
	return err == nil && held.Discarded
}

// pull leases ready messages, or waits for some if it is a long poll. The SDK repeats a long poll that fails at once,
// so a failure is answered late.
func (s *camellia) pull(long bool) api.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		poll, wait, err := s.poll(w, r)
		if err == nil {
			if ready := s.endBacks(s.backs.take(poll.Topic)); ready > 0 {
				s.Later(r, ready)
			}
			if long {
				poll.Wait = wait
				defer time.AfterFunc(wait-camelliaLast, func() { s.endBacks(s.backs.take(poll.Topic)) }).Stop()
			}
			_, err = s.HandOut(w, r, poll, func(found []scheduler.PulledMessage) error {
				list := make([]camelliaMessage, len(found))
				for i := range found {
					m := found[i].Message
					list[i] = *s.message(&message.Info{Message: *m, State: message.StateInFlight}, false)
					s.stats.pulled(m.Topic, *list[i].Retry-1, s.ops.Now().Sub(m.Due.Time()))
				}
				return s.RespondValue(w, http.StatusOK, camelliaAnswer{Code: camelliaOK, Msg: "success", List: &list})
			})
		}
		if err == nil {
			return nil
		}
		if long && s.ops.Judge(api.CallerOf(r), err).Status != http.StatusForbidden { // which Mount answers late
			s.Later(r, min(wait, time.Second))
		}
		return s.refuse(w, r, err)
	}
}

// poll reads a poll, and how long it waits if it is a long one.
func (s *camellia) poll(w http.ResponseWriter, r *http.Request) (poll scheduler.Poll, wait time.Duration, err error) {
	f, release, err := s.form(w, r)
	if err != nil {
		return poll, time.Second, err
	}
	release()
	wait = cmp.Or(f.millis("longPollingTimeoutMillis", ops.MaxWait), camelliaWait)
	poll = scheduler.Poll{Topic: f.topic(), Bytes: ops.PullBytes, Max: int(f.number("batch", 1, 1, ops.MaxPull)),
		Lease: f.millis("ackTimeoutMillis", wire.MostLease)}
	if poll.Lease > 0 { // else the topic's
		poll.Lease = max(poll.Lease, wire.LeastLease)
	}
	switch {
	case f.err != nil:
		return poll, wait, f.err
	case s.isMQ(poll.Topic):
		return poll, wait, ops.Refuse(http.StatusBadRequest, wire.WordDeliver,
			"topic %s has deliver: mq in the settings; nobody pulls it", poll.Topic)
	}
	return poll, wait, api.CallerOf(r).MayPull(poll.Topic)
}
