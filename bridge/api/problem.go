package api

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/tarry-mq/tarry/bridge/ops"
	"github.com/tarry-mq/tarry/bridge/wire"
)

// The stable words of problems that only HTTP has. Programs compare them; their meaning never changes.
const (
	WordUnknownRoute   = "unknown_route"
	WordMethod         = "method_not_allowed"
	WordUnauthorized   = "unauthorized"
	WordCrossOrigin    = "cross_origin"
	WordForeignHost    = "foreign_host"
	WordMediaType      = "unsupported_media_type"
	WordRequestTimeout = "request_timeout"
	WordIncomplete     = "incomplete_body"
)

// refuse answers a request with the problem for an error.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, err error) {
	known := s.ops.Judge(CallerOf(r), err)
	if o, ok := w.(*observed); ok && o.by != nil {
		o.by.Refused(known.Word)
	}
	h := w.Header()
	switch known.Status {
	case http.StatusServiceUnavailable:
		h.Set("Retry-After", strconv.Itoa(retryAfter(known.Word)))
	case http.StatusUnauthorized:
		h.Set("WWW-Authenticate", `Bearer realm="tarry"`)
	case http.StatusGatewayTimeout:
		if known.UID != "" {
			h.Set(wire.HeaderUID, known.UID)
		}
	}
	o, ok := w.(*observed)
	unread := ok && !o.whole && r.ContentLength != 0
	if unread {
		h.Set("Connection", "close") // and net/http answers before it reads on
	}
	s.Respond(w, known.Status, func(b []byte) []byte { return ops.AppendProblem(b, known) })
	if unread {
		o.linger()
	}
}

// strangerLinger is how long a connection is read on after its request was refused for who sent it.
const strangerLinger = 500 * time.Millisecond

// linger reads on after a refusal, since many clients read the answer once they have sent all, and a connection that is
// closed before would take it along (https://nginx.org/en/docs/http/ngx_http_core_module.html#lingering_close). The
// connection is idle meanwhile: at the limit it makes room for others.
func (o *observed) linger() {
	at, ok := o.r.Context().Value(slotKey{}).(slot)
	if !ok {
		return
	}
	control := http.NewResponseController(o)
	_ = control.Flush()
	at.leave()
	o.took = time.Since(o.started)
	within := strangerLinger
	if o.admitted {
		within = o.s.cfg.ReadTimeout
	}
	_ = control.SetReadDeadline(time.Now().Add(within))
	defer context.AfterFunc(o.s.stopping, func() { _ = control.SetReadDeadline(time.Now()) })()
	if o.r.Header.Get("Expect") == "" { // else to read would ask for the body
		_, _ = io.Copy(io.Discard, o.r.Body)
	}
}

// retryAfter returns the number of seconds after which to try again. It takes longer for memory to become free, or for
// a journal that is far behind to catch up, than for a connection to return.
func retryAfter(word string) int {
	if word == ops.WordFull || word == ops.WordBehind {
		return 5
	}
	return 1
}

// Respond writes a JSON answer. The length is known, so the connection can be reused at once.
func (s *Server) Respond(w http.ResponseWriter, status int, appendTo func([]byte) []byte) {
	buffer, _ := s.buffers.Get().(*[]byte)
	if buffer == nil {
		buffer = new([]byte)
	}
	body := append(appendTo((*buffer)[:0]), '\n')
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(body) // an error means that the client has gone
	if *buffer = body; cap(body) <= keptBuffer {
		s.buffers.Put(buffer)
	}
}

// keptBuffer is the maximum size of a buffer kept for the next answer; the answer to a full batch fits.
const keptBuffer = 1 << 20

// RespondValue writes v as JSON, for answers that are not on the path of every message.
func (s *Server) RespondValue(w http.ResponseWriter, status int, v any) error {
	text, err := ops.Encode(v)
	if err == nil {
		s.Respond(w, status, func(b []byte) []byte { return append(b, text...) })
	}
	return err
}
