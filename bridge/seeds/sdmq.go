package seeds

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
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

// The routes of sdmq, for its clients. docs/seeds.md tells what differs.

// sdmqWait is how long a consumer's request waits if it does not say it.
const sdmqWait = 30 * time.Second

// sdmq are the routes of sdmq.
type sdmq struct{ *door }

func (s *sdmq) routes() []api.Route {
	one := s.served(s.restoreOne)
	return []api.Route{
		{Pattern: "POST /push", Right: ops.RightPush, Serve: s.served(s.push)},
		{Pattern: "GET /delete", Right: ops.RightChange, Changes: true, Serve: s.served(s.delete)},
		{Pattern: "GET /reStore", Right: ops.RightOperate, Changes: true, Serve: s.served(s.restore)},
		{Pattern: "GET /reStore/{id}", Right: ops.RightOperate, Changes: true, Serve: one},
		{Pattern: "GET /reStoreJob", Right: ops.RightOperate, Changes: true, Serve: one},
		{Pattern: "GET /get/{topic}", Right: ops.RightPull, Changes: true, Serve: s.get},
		{Pattern: "GET /clearAll", Right: ops.RightOperate, Changes: true, Serve: s.served(
			func(http.ResponseWriter, *http.Request) (own, error) {
				return own{}, ops.Refuse(http.StatusGone, "gone",
					"nobody clears all by one GET; POST /v1/messages/cancel cancels what matches a topic, key or time")
			})},
	}
}

// sdmqJob is a message as sdmq's clients get it.
type sdmqJob struct {
	Topic      string `json:"topic"`
	ID         string `json:"id"`
	BizKey     string `json:"bizKey"`
	Delay      int64  `json:"delay"` // ms
	Priority   int    `json:"priority"`
	TTL        int64  `json:"ttl"` // ms; 0 is none
	Body       string `json:"body"`
	BodyBase64 []byte `json:"bodyBase64,omitempty"` // of a body that is no text
	CreateTime int64  `json:"createTime"`           // ms since 1970
	Subtopic   string `json:"subtopic,omitempty"`
	ExtendData string `json:"extendData,omitempty"` // the other headers, as a JSON object in text
}

// extend gives the job what its headers carry.
func (j *sdmqJob) extend(headers []message.Header) {
	rest := map[string]string{}
	for _, h := range headers {
		if h.Name == sdmqSubtopic {
			j.Subtopic = h.Value
		} else {
			rest[h.Name] = h.Value
		}
	}
	if text, err := json.Marshal(rest); err == nil && len(rest) > 0 {
		j.ExtendData = string(text)
	}
}

// sdmqSubtopic is the header that carries a subtopic, the tag of RocketMQ. An extendData's fields, there the user
// properties of the message, are headers of their own names.
const (
	sdmqSubtopic = "Subtopic"
	sdmqExtend   = "extendData"
)

// sdmqFields are the fields of a job that mean something, by what they are called in a push of tarry.
var sdmqFields = map[string]string{"topic": wire.FieldTopic, "id": wire.FieldID, "bizKey": wire.FieldKey,
	"delay": wire.FieldDelay, "priority": wire.FieldPriority, "ttl": wire.FieldTTL, "body": wire.FieldBody,
	"bodyBase64": "body_base64", "subtopic": sdmqSubtopic, "extendData": sdmqExtend}

// sdmqPushed returns a job as a push of tarry's, whose decoder judges it. Of the fields that it does not know it only
// sees that they are JSON.
func sdmqPushed(body []byte) ([]byte, error) {
	given, err := sdmqObject(ops.WordJSON, "the message", body)
	push, headers := map[string]any{wire.FieldDelay: 0}, map[string][]json.RawMessage{}
	for name, value := range given {
		for known, own := range sdmqFields {
			if err == nil && name != known && strings.EqualFold(name, known) {
				err = ops.Refuse(http.StatusBadRequest, "invalid_"+known, "%.40q is written %s", name, known)
			}
			if err != nil || name != known {
				continue
			}
			if value, err = sdmqScalar(known, value); value != nil {
				push[own] = value
			}
		}
	}
	if extend, is := push[sdmqExtend].(json.RawMessage); is && err == nil {
		err = sdmqExtended(headers, extend)
	}
	if tag, is := push[sdmqSubtopic].(json.RawMessage); is {
		headers[sdmqSubtopic] = append(headers[sdmqSubtopic], tag)
	}
	if err != nil {
		return nil, err
	}
	delete(push, sdmqExtend)
	delete(push, sdmqSubtopic)
	push[wire.FieldHeaders] = headers
	if push[wire.FieldID] == nil { // a name, by which it can be restored, and no uid
		push[wire.FieldID] = "job-" + rand.Text()
	}
	push[wire.FieldOnDuplicate] = wire.Replace // what waits under it gives way
	return json.Marshal(push)
}

// sdmqExtended adds the fields of an extendData, a JSON object in text, to the headers. What is no text there becomes
// its JSON.
func sdmqExtended(headers map[string][]json.RawMessage, value json.RawMessage) error {
	var text string
	if err := json.Unmarshal(value, &text); err != nil {
		return ops.Refuse(http.StatusBadRequest, "invalid_extendData", "extendData is not text that holds a JSON object")
	}
	given, err := sdmqObject("invalid_extendData", "extendData", []byte(text))
	for name, value := range given {
		var text bytes.Buffer
		if value[0] != '"' && json.Compact(&text, value) == nil {
			value, err = json.Marshal(text.String())
		}
		headers[name] = []json.RawMessage{value}
	}
	return err
}

// sdmqObject reads the fields of a JSON object. A name that comes twice, in whatever case, is an error.
func sdmqObject(word, what string, text []byte) (fields map[string]json.RawMessage, err error) {
	bad := func(format string, args ...any) (map[string]json.RawMessage, error) {
		return nil, ops.Refuse(http.StatusBadRequest, word, what+" cannot be read: "+format, args...)
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	if first, err := decoder.Token(); err != nil {
		return bad("%v", err)
	} else if first != json.Delim('{') {
		return bad("it is no JSON object")
	}
	fields = map[string]json.RawMessage{}
	folded := map[string]bool{}
	for decoder.More() {
		token, err := decoder.Token()
		if err != nil {
			return bad("%v", err)
		}
		name, _ := token.(string)
		if fold := strings.ToLower(name); folded[fold] {
			word = ops.WordRepeatedField
			return bad("%.40q is given more than once", name)
		} else {
			folded[fold] = true
		}
		var value json.RawMessage
		if err := decoder.Decode(&value); err != nil {
			return bad("%v", err)
		}
		fields[name] = value
	}
	if _, err := decoder.Token(); err != nil {
		return bad("%v", err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return bad("there is more after the object")
	}
	return fields, nil
}

// sdmqScalar returns a text or a number, whichever form it has, as Jackson takes it. What is none is nil.
func sdmqScalar(name string, value json.RawMessage) (json.RawMessage, error) {
	number := name == "delay" || name == "priority" || name == "ttl"
	switch c := value[0]; {
	case c == 'n' || string(value) == `""` && name != "body":
		return nil, nil
	case c == '{' || c == '[':
		return nil, ops.Refuse(http.StatusBadRequest, "invalid_"+name, "%s is neither text nor a number", name)
	case !number && c != '"':
		return slices.Concat([]byte{'"'}, value, []byte{'"'}), nil
	case !number:
		return value, nil
	}
	n, err := strconv.ParseInt(strings.Trim(string(value), `" `), 10, 64)
	if f, bad := strconv.ParseFloat(string(value), 64); err != nil && bad == nil && math.Abs(f) < 1<<53 {
		n, err = int64(f), nil // as Jackson reads it
	}
	switch {
	case err != nil:
		return nil, ops.Refuse(http.StatusBadRequest, "invalid_"+name, "%s %.40s is not a whole number", name, value)
	case name == "delay": // before 0 it fell due before it was sent
		n = max(n, 0)
	case name == "ttl" && n == 0:
		return nil, nil
	}
	if name == "priority" {
		return strconv.AppendInt(nil, n, 10), nil
	}
	return fmt.Appendf(nil, `"%dms"`, n), nil
}

// sdmqWhole are the words of problems of the request as a whole, beside those of the caller's rights.
var sdmqWhole = []string{ops.WordJSON, wire.WordTooLarge, ops.WordQuery, api.WordIncomplete, api.WordMethod,
	api.WordRequestTimeout, api.WordMediaType}

// own is an answer of tarry's, a JSON object, and what of it is sdmq's answer.
type own struct {
	text []byte
	data any
}

// served answers as sdmq does: HTTP 200 and an envelope, in which the fields of tarry's own answer stand beside the
// others. Only what concerns the request as a whole has another status.
func (s *sdmq) served(do func(w http.ResponseWriter, r *http.Request) (own, error)) api.Handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		answer, err := do(w, r)
		if err == nil {
			return s.answer(w, sdmqEnvelope{Success: true, Data: answer.data, Code: http.StatusOK}, answer.text)
		}
		var named *wire.Error
		if errors.As(err, &named) && named.Field == wire.FieldKey {
			err = &wire.Error{Word: named.Word, Field: "bizKey", Detail: named.Detail}
		}
		known := s.ops.Judge(api.CallerOf(r), err)
		if known.Status == http.StatusUnauthorized || known.Status == http.StatusForbidden ||
			slices.Contains(sdmqWhole, known.Word) {
			return err
		}
		api.CallerOf(r).Refused(known.Word)
		return s.answer(w, sdmqEnvelope{Code: http.StatusInternalServerError, Message: &known.Detail},
			ops.AppendProblem(nil, known))
	}
}

// sdmqEnvelope is what every answer of sdmq has.
type sdmqEnvelope struct {
	Success bool    `json:"success"`
	Data    any     `json:"data"`
	Code    int     `json:"code"`
	Message *string `json:"message"`
}

// answer answers with an envelope and the fields of an answer of tarry's.
func (s *sdmq) answer(w http.ResponseWriter, e sdmqEnvelope, own []byte) error {
	text, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("encode the answer: %w", err)
	}
	s.Respond(w, http.StatusOK, func(b []byte) []byte {
		return append(append(append(b, text[:len(text)-1]...), ','), own[1:]...)
	})
	return nil
}

// did returns the answer of one of tarry's operations. What else the query has means nothing.
func (s *sdmq) did(w http.ResponseWriter, r *http.Request, operation string, in map[string]any) (own, error) {
	request, err := json.Marshal(in)
	if err != nil {
		return own{}, fmt.Errorf("encode the request: %w", err)
	}
	out, err := s.Do(w, r, operation, request)
	if err != nil {
		return own{}, err
	}
	text, err := ops.Encode(out)
	return own{text: text}, err
}

// push pushes one message.
func (s *sdmq) push(w http.ResponseWriter, r *http.Request) (own, error) {
	body, release, err := s.Read(w, r)
	if err != nil {
		return own{}, err
	}
	defer release()
	push, err := sdmqPushed(body)
	if err != nil {
		return own{}, err
	}
	item := ops.DecodePush(push, s.ops.Prefix)
	if item.Err != nil { // served gives its field sdmq's name
		return own{}, item.Err
	}
	ctx, stop := context.WithTimeout(r.Context(), s.ops.Timeout)
	defer stop()
	result := s.ops.Accept(ctx, api.CallerOf(r), item)[0]
	if result.Problem == nil {
		w.Header().Set("Location", "/v1/messages/"+result.Answer.UID)
	}
	return pushed(result, true)
}

// pushed returns the answer to a push, of which the id is sdmq's.
func pushed(result ops.Result, id bool) (own, error) {
	if result.Problem != nil {
		return own{}, &ops.Refused{Problem: *result.Problem}
	}
	answer := own{text: ops.AppendAnswer(nil, &result.Answer)}
	if id {
		answer.data = result.Answer.ID
	}
	return answer, nil
}

// delete cancels a message. That there is none is a success.
func (s *sdmq) delete(w http.ResponseWriter, r *http.Request) (own, error) {
	_, id, err := s.named(r)
	if err != nil {
		return own{}, err
	}
	answer, err := s.did(w, r, "cancel", map[string]any{wire.FieldID: id})
	var none *ops.Refused
	if errors.As(err, &none) && none.Word == ops.WordUnknownID {
		text, err := json.Marshal(map[string]string{wire.FieldID: id})
		return own{text: text}, err
	}
	return answer, err
}

// restoreOne restores a message from the journal. One that was deleted is scheduled again.
func (s *sdmq) restoreOne(w http.ResponseWriter, r *http.Request) (own, error) {
	ref, id, err := s.named(r)
	if err == nil {
		err = s.ops.Journaled()
	}
	if err != nil {
		return own{}, err
	}
	ctx, stop := context.WithTimeout(r.Context(), s.ops.Timeout)
	defer stop()
	is, err := s.ops.Service.Get(ctx, ref)
	switch {
	case err != nil || !is.State.Ended():
		return s.did(w, r, "restore_one", map[string]any{wire.FieldID: id})
	case is.ID == "":
		return own{}, ops.Refuse(http.StatusConflict, "no_name",
			"another door pushed the message without an id; push it again")
	case is.State != message.StateCanceled || is.Kind != message.KindPlain && is.Kind != message.KindWithdrawn:
		return own{}, ops.Refuse(http.StatusConflict, "already_"+is.State.String(),
			"the message ended as %s; one that was deleted can be restored", is.State)
	}
	s.ops.Begin(ctx, api.CallerOf(r).Audit("restore", false).Str("id", id))
	asking, enough := context.WithTimeout(r.Context(), s.ops.Timeout)
	defer enough()
	m, err := s.ops.Journal.Whole(asking, is.UID)
	if err != nil {
		return own{}, ops.Unanswered("journal", err)
	}
	again := &scheduler.Push{ID: m.ID, Key: m.Key, Topic: m.Topic, Headers: m.Headers, Body: m.Body, TTL: m.TTL,
		Retry: m.Retry, Priority: m.Priority, Deliver: scheduler.DeliverMQ, HasAt: true, At: m.Due, Lease: m.Lease,
		Merge: message.MergeKeep} // of a push in between
	if m.Pull {
		again.Deliver = scheduler.DeliverPull
	}
	return pushed(ops.Accepted(s.ops.Service.AcceptAll(ctx, []*scheduler.Push{again})[0], s.ops.Durable), false)
}

// named returns the one message that the path or the query names, and its id. What else the query has means nothing.
func (s *sdmq) named(r *http.Request) (ref scheduler.Ref, id string, err error) {
	values := r.URL.Query()
	ids := slices.Concat(values["id"], values["jobId"], values["JobId"])
	if in := r.PathValue("id"); in != "" {
		ids = append(ids, in)
	}
	if len(ids) != 1 || ids[0] == "" {
		return ref, "", ops.Refuse(http.StatusBadRequest, wire.WordID, "id is given %d times; want one", len(ids))
	}
	ref, err = api.CallerOf(r).Ref(&ops.Named{ID: ids[0]})
	return ref, ids[0], err
}

// restore restores from the journal; with expire what is due as well.
func (s *sdmq) restore(w http.ResponseWriter, r *http.Request) (own, error) {
	expire := r.URL.Query().Get("expire")
	if expire != "" && expire != "true" && expire != "false" {
		return own{}, ops.Refuse(http.StatusBadRequest, "invalid_expire", "expire %.40q is neither true nor false", expire)
	}
	return s.did(w, r, "restore", map[string]any{"overdue": expire == "true"})
}

// get hands out one message, once there is one, and acknowledges it once the answer is written whole. If it cannot
// be written it comes back at once, and if this instance dies once the lease is over.
func (s *sdmq) get(w http.ResponseWriter, r *http.Request) error {
	topic, wait := r.PathValue("topic"), sdmqWait
	values, err := api.Query(r, "wait")
	if err == nil {
		err = wire.CheckOneTopic(topic)
	}
	if err == nil && values.Has("wait") {
		wait, err = ops.ParseWait(values.Get("wait"))
	}
	if err == nil {
		err = api.CallerOf(r).MayPull(topic)
	}
	if one := s.topics.Of(topic); err == nil && (one == nil || one.Deliver != scheduler.DeliverPull) {
		err = ops.Refuse(http.StatusBadRequest, wire.WordDeliver,
			"topic %s needs deliver: pull in the settings; NATS carries what is pushed to it", topic)
	}
	if err != nil {
		return err
	}
	poll := scheduler.Poll{Topic: topic, Max: 1, Bytes: ops.PullBytes, Wait: wait, Lease: 2 * s.ops.Timeout}
	var taken []scheduler.PulledMessage
	kept, err := s.HandOut(w, r, poll, func(found []scheduler.PulledMessage) error {
		if taken = found; len(found) == 0 {
			w.WriteHeader(http.StatusNoContent)
			return nil
		}
		m := found[0].Message
		created := m.UID.Time().UnixMilli()
		job := sdmqJob{Topic: m.Topic, ID: ops.PulledOf(&found[0], 0).ID, BizKey: m.Key, Delay: int64(m.Due) - created,
			Priority: int(m.Priority), TTL: m.TTL.Milliseconds(), CreateTime: created}
		job.extend(m.Headers)
		if job.Body = string(m.Body); !utf8.Valid(m.Body) {
			job.Body, job.BodyBase64 = "", m.Body
		}
		return s.RespondValue(w, http.StatusOK, job)
	})
	if len(kept) == 0 { // its client may have gone, and cannot settle what it got
		s.ops.Service.GiveBack(r.Context(), taken)
	}
	for _, m := range kept {
		ctx, stop := context.WithTimeout(context.WithoutCancel(r.Context()), s.ops.Timeout)
		_, errs := s.ops.Service.Settle(ctx, []scheduler.Settlement{{Verb: scheduler.Ack,
			Receipt: scheduler.Receipt{UID: m.UID, Nonce: m.Nonce, Topic: m.Topic}}})
		if stop(); errs[0] != nil { // the client has its answer: the message may come twice
			s.ops.Log.Warn().Err(errs[0]).Str("uid", string(m.UID)).Msg("a message was handed out and not acknowledged")
		}
	}
	return err
}
