package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/tarry-mq/tarry/bridge/answer"
	"github.com/tarry-mq/tarry/bridge/wire"
	"github.com/tarry-mq/tarry/scheduler"
)

// The routes of sdmq, for its clients. Problems are answered as everywhere else. docs/seeds.md tells what differs.

// sdmqWait is how long a consumer's request waits if it does not say it.
const sdmqWait = 30 * time.Second

// sdmqRoutes registers the routes. Those that change something are requests by GET, which a page of another origin must
// not make a browser send, and which HEAD must not be.
func (s *Server) sdmqRoutes(closed func(pattern string, needs right, h handler)) {
	get := func(path string, needs right, h handler) {
		closed("GET "+path, needs, func(w http.ResponseWriter, r *http.Request) error {
			if r.Method != http.MethodGet {
				w.Header().Set("Allow", http.MethodGet)
				return refusal(http.StatusMethodNotAllowed, WordMethod, "this path takes GET")
			}
			return h(w, r)
		})
	}
	closed("POST /push", rightPush, s.sdmqPush)
	get("/delete", rightChange, s.sdmqNamed(s.cancel))
	get("/reStore", rightOperate, s.journaled(s.sdmqRestore))
	get("/reStore/{id}", rightOperate, s.journaled(s.sdmqNamed(s.restoreOne)))
	get("/reStoreJob", rightOperate, s.journaled(s.sdmqNamed(s.restoreOne)))
	get("/get/{topic}", rightPull, s.sdmqGet)
	get("/clearAll", rightOperate, func(http.ResponseWriter, *http.Request) error {
		return refusal(http.StatusGone, "gone",
			"nobody clears all by one GET; POST /v1/messages/cancel cancels what matches a topic, key or time")
	})
}

// crossing returns the request as its origin must be judged: what changes something by GET counts as a POST.
func crossing(r *http.Request) *http.Request {
	path, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	if r.Method == http.MethodGet && (path == "delete" || path == "reStore" || path == "reStoreJob" || path == "get") {
		changing := *r
		changing.Method = http.MethodPost
		return &changing
	}
	return r
}

// unmarked reports whether a browser sent a request without a mark of its origin, as it does over plain HTTP to other
// machines. No client is a browser.
func unmarked(r *http.Request) bool {
	return r.Header.Get("Sec-Fetch-Site") == "" && strings.Contains(r.UserAgent(), "Mozilla/")
}

// sdmqJob is a message as sdmq's clients send and get it.
type sdmqJob struct {
	Topic      string          `json:"topic"`
	ID         string          `json:"id"`
	BizKey     string          `json:"bizKey"`
	Delay      *int64          `json:"delay"` // ms
	Priority   int             `json:"priority"`
	TTL        int64           `json:"ttl"` // ms; 0 is none
	Body       string          `json:"body"`
	BodyBase64 []byte          `json:"bodyBase64,omitempty"` // of a body that is no text
	CreateTime json.RawMessage `json:"createTime"`           // ms since 1970; of no meaning in a push
	Status     json.RawMessage `json:"status,omitempty"`     // of no meaning
	Subtopic   json.RawMessage `json:"subtopic,omitempty"`   // likewise
}

func sdmqDecode(body []byte) (p wire.Push, content []byte, err error) {
	var job sdmqJob
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.DisallowUnknownFields()
	if err = decoder.Decode(&job); err == nil {
		if _, end := decoder.Token(); !errors.Is(end, io.EOF) {
			err = errors.New("there is more after the object")
		}
	}
	var mistyped *json.UnmarshalTypeError
	switch {
	case errors.As(err, &mistyped) && mistyped.Field == "":
		err = errors.New("it is no JSON object")
	case mistyped != nil:
		return p, nil, refusal(http.StatusBadRequest, "invalid_"+mistyped.Field, "%s is not of the type %s",
			mistyped.Field, mistyped.Type)
	}
	if err != nil {
		return p, nil, refusal(http.StatusBadRequest, wire.WordJSON, "the message cannot be read: %v", err)
	}
	if job.Delay == nil {
		return p, nil, refusal(http.StatusBadRequest, wire.WordDelay, "delay is missing; it is in milliseconds")
	}
	set := func(field, value string) {
		if err == nil && value != "" {
			err = p.Set(field, value)
		}
	}
	content = []byte(job.Body)
	switch {
	case job.BodyBase64 != nil && job.Body != "":
		err = refusal(http.StatusBadRequest, wire.WordBody, "body and bodyBase64 are both given; a message has one of them")
	case job.BodyBase64 != nil:
		content = job.BodyBase64
	case !utf8.Valid(body) || strings.ContainsRune(job.Body, utf8.RuneError) && !bytes.ContainsRune(body, utf8.RuneError):
		err = refusal(http.StatusBadRequest, wire.WordBody, "body is not valid UTF-8; bodyBase64 takes any bytes")
	}
	p.Topic = job.Topic
	set(wire.FieldDelay, fmt.Sprintf("%dms", *job.Delay))
	set(wire.FieldID, job.ID)
	set(wire.FieldKey, job.BizKey)
	set(wire.FieldPriority, strconv.Itoa(job.Priority))
	if job.TTL != 0 {
		set(wire.FieldTTL, fmt.Sprintf("%dms", job.TTL))
	}
	return p, content, err
}

// sdmqPush pushes one message and answers with its id.
func (s *Server) sdmqPush(w http.ResponseWriter, r *http.Request) error {
	body, release, err := s.read(w, r)
	if err != nil {
		return err
	}
	defer release()
	item := wire.PushItem{}
	if item.Push, item.Body, item.Err = sdmqDecode(body); item.Err == nil {
		item.Err = item.Push.Check(s.cfg.Prefix)
	}
	push, err := s.judge(r, &item)
	if err != nil {
		return err
	}
	ctx, stop := context.WithTimeout(r.Context(), s.cfg.Timeout)
	defer stop()
	result := s.result(s.cfg.Service.AcceptAll(ctx, []*scheduler.Push{push})[0])
	if result.Problem != nil {
		return &problem{*result.Problem}
	}
	return s.respondValue(w, http.StatusOK, map[string]string{"id": result.Answer.ID})
}

// sdmqNamed calls h, which serves a route of one message, for the message that the path or the query names.
func (s *Server) sdmqNamed(h handler) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		values, err := query(r, "id", "jobId", "JobId")
		if err != nil {
			return err
		}
		named, ids := sdmqAs(r, ""), slices.Concat(values["id"], values["jobId"], values["JobId"])
		if in := r.PathValue("id"); in != "" {
			ids = append(ids, in)
		}
		if len(ids) != 1 || ids[0] == "" {
			return refusal(http.StatusBadRequest, wire.WordID, "id is given %d times; want one", len(ids))
		}
		named.SetPathValue("id", ids[0])
		return h(w, named)
	}
}

// sdmqAs returns the request with another body and no query.
func sdmqAs(r *http.Request, body string) *http.Request {
	as := r.Clone(r.Context())
	as.URL = &url.URL{Path: r.URL.Path}
	as.Body, as.ContentLength = io.NopCloser(strings.NewReader(body)), int64(len(body))
	as.Header.Del("Content-Type")
	return as
}

// sdmqRestore restores from the journal; with expire what is due as well.
func (s *Server) sdmqRestore(w http.ResponseWriter, r *http.Request) error {
	values, err := query(r, "expire")
	if err != nil {
		return err
	}
	expire := values.Get("expire")
	if expire != "" && expire != "true" && expire != "false" {
		return refusal(http.StatusBadRequest, "invalid_expire", "expire %.40q is neither true nor false", expire)
	}
	return s.restore(w, sdmqAs(r, fmt.Sprintf(`{"overdue":%t}`, expire == "true")))
}

// sdmqGet hands out one message, once there is one, and acknowledges it once the answer is written whole. If it cannot
// be written it comes back at once, and if this instance dies once the lease is over.
func (s *Server) sdmqGet(w http.ResponseWriter, r *http.Request) error {
	topic, wait := r.PathValue("topic"), sdmqWait
	values, err := query(r, "wait")
	if err == nil {
		err = wire.CheckOneTopic(topic)
	}
	p := params{values, err}
	p.read("wait", func(text string) (err error) { wait, err = wire.ParseWait(text); return err })
	if p.err == nil {
		p.err = mayPull(r, topic)
	}
	if one := s.cfg.Topics.Of(topic); p.err == nil && (one == nil || one.Deliver != scheduler.DeliverPull) {
		p.err = refusal(http.StatusBadRequest, wire.WordDeliver,
			"topic %s needs deliver: pull in the settings; NATS carries what is pushed to it", topic)
	}
	if p.err != nil {
		return p.err
	}
	poll := scheduler.Poll{Topic: topic, Max: 1, Bytes: wire.PullBytes, Wait: wait, Lease: 2 * s.cfg.Timeout}
	var taken []scheduler.PulledMessage
	kept, err := s.handOut(w, r, poll, func(found []scheduler.PulledMessage) error {
		if taken = found; len(found) == 0 {
			w.WriteHeader(http.StatusNoContent)
			return nil
		}
		m := found[0].Message
		created := m.UID.Time().UnixMilli()
		delay := int64(m.Due) - created
		job := sdmqJob{Topic: m.Topic, ID: answer.Pulled(&found[0], 0).ID, BizKey: m.Key, Delay: &delay,
			Priority: int(m.Priority), TTL: m.TTL.Milliseconds(), CreateTime: strconv.AppendInt(nil, created, 10)}
		if job.Body = string(m.Body); !utf8.Valid(m.Body) {
			job.Body, job.BodyBase64 = "", m.Body
		}
		return s.respondValue(w, http.StatusOK, job)
	})
	if len(kept) == 0 { // its client may have gone, and cannot settle what it got
		s.cfg.Service.GiveBack(r.Context(), taken)
	}
	for _, m := range kept {
		ctx, stop := context.WithTimeout(context.WithoutCancel(r.Context()), s.cfg.Timeout)
		_, errs := s.cfg.Service.Settle(ctx, []scheduler.Settlement{{Verb: scheduler.Ack,
			Receipt: scheduler.Receipt{UID: m.UID, Nonce: m.Nonce, Topic: m.Topic}}})
		if stop(); errs[0] != nil { // the client has its answer: the message may come twice
			s.log.Warn().Err(errs[0]).Str("uid", string(m.UID)).Msg("a message was handed out and not acknowledged")
		}
	}
	return err
}
