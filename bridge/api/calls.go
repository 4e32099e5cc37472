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
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/tarry-mq/tarry/bridge/ops"
	"github.com/tarry-mq/tarry/bridge/wire"
)

// Calls reach the API by another transport than HTTP, with the same routes, checks, answers and words. A request is one
// JSON object. The names in braces in the route's path are fields of it, and so are the query parameters; the remaining
// fields form the body. The other transport decides who may call: a call needs no token, and its rights are those of
// its list: reads, changes or admins.

// Call answers a request in that form with a status as in HTTP and a body in JSON.
type Call = func(ctx context.Context, request []byte) (status int, body []byte)

// route is the HTTP route of a call.
type route struct {
	pattern string
	query   []string // parameters that a route with a body takes in its query
}

// reads are the calls that read messages, topics, rejects and the cluster.
var reads = map[string]route{
	"list":     {pattern: "GET /v1/messages"},
	"history":  {pattern: "GET /v1/messages/{id}/history"},
	"forecast": {pattern: "GET /v1/forecast"},
	"topics":   {pattern: "GET /v1/topics"},
	"topic":    {pattern: "GET /v1/topics/{topic}"},
	"dead":     {pattern: "GET /v1/dead"},
	"rejects":  {pattern: "GET /v1/rejects"},
	"reject":   {pattern: "GET /v1/rejects/{sequence}"},
	"cluster":  {pattern: "GET /v1/cluster"},
	"why":      {pattern: "GET /v1/why"},
}

// changes are the calls of producers that change many messages, or dead ones. Those about one message are the request
// API's own: through this table they would take a tenth to a third longer.
var changes = map[string]route{
	"cancel_many":     {pattern: "POST /v1/messages/cancel"},
	"reschedule_many": {pattern: "POST /v1/messages/reschedule"},
	"dead_requeue":    {pattern: "POST /v1/dead/requeue"},
}

// admins are the calls of operators. Each call is logged, as over HTTP.
var admins = map[string]route{
	"pause":           {pattern: "POST /v1/topics/{topic}/pause"},
	"resume":          {pattern: "POST /v1/topics/{topic}/resume"},
	"dead_requeue":    {pattern: "POST /v1/dead/requeue"},
	"dead_purge":      {pattern: "POST /v1/dead/purge"},
	"rejects_requeue": {pattern: "POST /v1/rejects/requeue"},
	"restore":         {pattern: "POST /v1/restore"},
	"restore_one":     {pattern: "POST /v1/messages/{id}/restore", query: []string{"topic", "key"}},
	"verify":          {pattern: "POST /v1/verify"},
	"redeliver":       {pattern: "POST /v1/redeliver"},
	"resign":          {pattern: "POST /v1/cluster/resign"},
	"forget":          {pattern: "DELETE /v1/cluster/instances/{instance}"},
}

// Reads returns the calls that change nothing, by name.
func (s *Server) Reads() map[string]Call {
	return s.calls(reads, &Token{Name: ops.ByNATS, Read: true})
}

// Changes returns the calls of producers that change many messages, or dead ones, by name.
func (s *Server) Changes() map[string]Call { return s.operating(changes) }

// Admins returns the calls of operators, by name.
func (s *Server) Admins() map[string]Call { return s.operating(admins) }

func (s *Server) operating(routes map[string]route) map[string]Call {
	all := []string{">"}
	return s.calls(routes, &Token{Name: ops.ByNATS, Push: all, Pull: all, Read: true, Operate: true})
}

func (s *Server) calls(routes map[string]route, as *Token) map[string]Call {
	all := make(map[string]Call, len(routes))
	for name, to := range routes {
		all[name] = func(ctx context.Context, request []byte) (int, []byte) { return s.call(ctx, to, as, request) }
	}
	return all
}

// call answers a request through its route.
func (s *Server) call(ctx context.Context, to route, as *Token, request []byte) (status int, body []byte) {
	w := &collected{header: http.Header{}}
	line := &visit{token: as}
	ctx = context.WithValue(ctx, visitKey{}, line)
	r := (&http.Request{Header: http.Header{}, URL: &url.URL{}, Pattern: to.pattern,
		RemoteAddr: as.Name}).WithContext(ctx)
	o := &observed{ResponseWriter: w, s: s, r: r, started: time.Now()}
	h := s.handlers[to.pattern]
	if h.needs.audited() {
		line.audit = &audit{}
		o.visit = line
	}
	defer func() {
		if failure := recover(); failure != nil {
			s.log.Error().Str("route", to.pattern).Str("panic", panicText(failure)).Str("stack", string(debug.Stack())).
				Msg("request panicked")
			*w = collected{header: http.Header{}}
			o.status = 0
			s.refuse(o, r, &problem{ops.ProblemOf(errPanicked)})
			status, body = w.status, w.body.Bytes()
		}
		o.audited(time.Since(o.started))
	}()
	err := to.fill(r, request)
	if err == nil && !as.has(h.needs) {
		err = lacks(h.needs.String(), "")
	}
	if err == nil {
		err = h.handle(o, r)
	}
	if err != nil {
		s.refuse(o, r, err)
	}
	return w.status, w.body.Bytes()
}

// fill puts the fields of a request where the route expects them.
func (to *route) fill(r *http.Request, request []byte) error {
	names, values, err := members(request)
	if err != nil {
		return err
	}
	method, path, _ := strings.Cut(to.pattern, " ")
	r.Method = method
	inPath := map[string]bool{}
	for step := range strings.SplitSeq(path, "/") {
		if name, found := strings.CutPrefix(step, "{"); found {
			inPath[strings.TrimSuffix(name, "}")] = true
		}
	}
	query := url.Values{}
	var body bytes.Buffer
	for i, name := range names {
		switch value := values[i]; {
		case inPath[name], method == http.MethodGet, slices.Contains(to.query, name):
			text, given, err := plainText(name, value)
			switch {
			case err != nil:
				return err
			case given && inPath[name]:
				r.SetPathValue(name, text)
				delete(inPath, name)
			case given:
				query.Set(name, text)
			}
		default:
			quoted, err := json.Marshal(name)
			if err != nil {
				return fmt.Errorf("encode the name of a field: %w", err)
			}
			if body.Len() > 0 {
				body.WriteByte(',')
			}
			body.Write(quoted)
			body.WriteByte(':')
			body.Write(value)
		}
	}
	for name := range inPath {
		return &wire.Error{Word: "invalid_" + name, Field: name, Detail: "is missing"}
	}
	r.URL.RawQuery = query.Encode()
	text := "{" + body.String() + "}"
	if body.Len() == 0 {
		text = ""
	}
	r.Body, r.ContentLength = io.NopCloser(strings.NewReader(text)), int64(len(text))
	return nil
}

// members returns the fields of an object in order. An empty request is an object without fields.
func members(request []byte) (names []string, values []json.RawMessage, err error) {
	if len(bytes.TrimSpace(request)) == 0 {
		return nil, nil, nil
	}
	bad := &wire.Error{Word: ops.WordJSON, Field: "request", Detail: "is not one JSON object"}
	d := json.NewDecoder(bytes.NewReader(request))
	if open, err := d.Token(); err != nil || open != json.Delim('{') {
		return nil, nil, bad
	}
	seen := map[string]bool{}
	for d.More() {
		token, err := d.Token()
		name, ok := token.(string)
		var value json.RawMessage
		if err != nil || !ok || d.Decode(&value) != nil {
			return nil, nil, bad
		}
		if seen[name] {
			return nil, nil, &wire.Error{Word: ops.WordRepeatedField, Field: fmt.Sprintf("%.40q", name),
				Detail: "is given more than once"}
		}
		if len(seen) >= maxFields {
			return nil, nil, &wire.Error{Word: wire.WordTooLarge, Field: "request",
				Detail: fmt.Sprintf("has more than %d fields", maxFields)}
		}
		seen[name] = true
		names, values = append(names, name), append(values, value)
	}
	if _, err := d.Token(); err != nil {
		return nil, nil, bad
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, nil, bad
	}
	return names, values, nil
}

// maxFields is a bound on the fields of a request; none has as many.
const maxFields = 64

// plainText returns a value in the form that a path or a query has. A null counts as absent.
func plainText(name string, value json.RawMessage) (text string, given bool, err error) {
	switch value[0] {
	case '"':
		if err := json.Unmarshal(value, &text); err != nil {
			return "", false, fmt.Errorf("decode %s: %w", name, err)
		}
		return text, true, nil
	case 'n':
		return "", false, nil
	case '{', '[':
		return "", false, &wire.Error{Word: ops.WordJSON, Field: fmt.Sprintf("%.40q", name),
			Detail: "is neither text nor a number"}
	}
	return string(value), true, nil
}

// collected holds an answer in memory.
type collected struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (c *collected) Header() http.Header { return c.header }

func (c *collected) WriteHeader(status int) {
	if c.status == 0 {
		c.status = status
	}
}

func (c *collected) Write(b []byte) (int, error) {
	c.WriteHeader(http.StatusOK)
	return c.body.Write(b)
}
