package api

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/tarry-mq/tarry/bridge/ops"
	"github.com/tarry-mq/tarry/bridge/wire"
)

// firstRead is the initial size of the buffer for a body. It grows with what has arrived, and not with what the caller
// promises.
const firstRead = 4 << 10

// Read reads the whole body into fresh memory. release returns the body's share of the common limit; the memory itself
// is left to the garbage collector.
func (s *Server) Read(w http.ResponseWriter, r *http.Request) (body []byte, release func(), err error) {
	held, by := int64(0), s.holder(r, CallerOf(r).Token)
	giveBack := func() { s.reading.give(by, held) }
	defer func() {
		if err != nil {
			giveBack()
		}
	}()
	if err := jsonOnly(r); err != nil {
		return nil, nil, err
	}
	limit, promised := s.cfg.MaxBody, r.ContentLength
	if promised > limit {
		return nil, nil, ops.Refuse(http.StatusRequestEntityTooLarge, wire.WordTooLarge,
			"request body has %d bytes, the limit is %d", promised, limit)
	}
	most := limit + 1 // one more byte detects the end without growing
	if promised >= 0 {
		most = promised + 1
	}
	from := http.MaxBytesReader(w, r.Body, limit)
	for size := min(firstRead, most); ; {
		if len(body) == cap(body) {
			if err := s.hold(by, size-held); err != nil {
				return nil, nil, err
			}
			held = size
			bigger := make([]byte, len(body), size)
			copy(bigger, body)
			body = bigger
			size = min(2*size, most)
		}
		n, err := from.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		if errors.Is(err, io.EOF) {
			wholly(w)
			return body, giveBack, nil
		}
		if err != nil {
			return nil, nil, broken(err, len(body))
		}
	}
}

// wholly notes that a request's body was read.
func wholly(w http.ResponseWriter) {
	if o, ok := w.(*observed); ok {
		o.whole = true
	}
}

// bodies counts the bytes of request bodies, all together and by holder.
type bodies struct {
	mu  sync.Mutex
	all int64
	by  map[string]int64
}

// take takes bytes for a holder, unless all or this holder would then hold more than allowed. An empty holder stands
// for many callers, and has no limit of its own.
func (b *bodies) take(by string, bytes, all, each int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.add(by, bytes, all, each) >= 0 {
		return true
	}
	b.add(by, -bytes, all, each)
	return false
}

// hold takes bytes in any case, and returns how many more the holder may take.
func (b *bodies) hold(by string, bytes, all, each int64) (left int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.add(by, bytes, all, each)
}

func (b *bodies) give(by string, bytes int64) { b.hold(by, -bytes, 0, 0) }

func (b *bodies) add(by string, bytes, all, each int64) (left int64) {
	b.all += bytes
	left = all - b.all
	if by == "" {
		return left
	}
	if b.by == nil {
		b.by = map[string]int64{}
	}
	held := b.by[by] + bytes
	if b.by[by] = held; held <= 0 {
		delete(b.by, by)
	}
	return min(left, each-held)
}

// holderShare is the part of the memory for bodies that one holder may take.
const holderShare = 4

// holder returns who holds a request's body and connection: the caller's token, else the address. A proxy's requests
// have no holder: the proxy limits its clients.
func (s *Server) holder(r *http.Request, token *Token) string {
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	addr := from.Addr().Unmap()
	if err == nil && slices.ContainsFunc(s.cfg.Proxies, func(p netip.Prefix) bool { return p.Contains(addr) }) {
		return ""
	}
	if token != nil {
		return "token " + token.Name
	}
	if addr.Is6() { // a caller has as many addresses as it likes of these
		if network, err := addr.Prefix(64); err == nil {
			return network.String()
		}
	}
	return addr.String()
}

// hold takes bytes of what all bodies may take together, or gives them back if negative.
func (s *Server) hold(by string, bytes int64) error {
	if bytes <= 0 {
		s.reading.give(by, -bytes)
		return nil
	}
	if all := bodiesAtOnce * s.cfg.MaxBody; !s.reading.take(by, bytes, all, all/holderShare) {
		return ops.Refuse(http.StatusServiceUnavailable, ops.WordBusy,
			"the requests being read take more than %d bytes, or those of this caller a quarter of that", all)
	}
	return nil
}

// broken returns the error for a body that did not arrive completely.
func broken(err error, got int) error {
	var above *http.MaxBytesError
	switch {
	case errors.As(err, &above):
		return ops.Refuse(http.StatusRequestEntityTooLarge, wire.WordTooLarge,
			"request body has more than the limit of %d bytes", above.Limit)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return ops.Refuse(http.StatusRequestTimeout, WordRequestTimeout,
			"request body took too long; %d bytes had arrived", got)
	}
	return ops.Refuse(http.StatusBadRequest, WordIncomplete, "request body broke off after %d bytes", got)
}

// jsonOnly refuses a body whose media type is not JSON. A missing type is accepted, and so is the type that curl sends
// by default: the body is parsed as JSON in any case.
func jsonOnly(r *http.Request) error {
	if coding := r.Header.Get("Content-Encoding"); coding != "" && !strings.EqualFold(coding, "identity") {
		return ops.Refuse(http.StatusUnsupportedMediaType, WordMediaType,
			"Content-Encoding %.40q is not understood; send plain JSON", coding)
	}
	given := r.Header.Get("Content-Type")
	if given == "" {
		return nil
	}
	media, params, err := mime.ParseMediaType(given)
	known := media == "application/json" || media == "application/x-www-form-urlencoded" ||
		strings.HasSuffix(media, "+json")
	if charset := params["charset"]; err != nil || !known || charset != "" && !strings.EqualFold(charset, "utf-8") {
		return ops.Refuse(http.StatusUnsupportedMediaType, WordMediaType,
			"Content-Type %.60q is not understood; send application/json in UTF-8", given)
	}
	return nil
}

// Query reads the query. It refuses unknown names: "?kye=" must not cancel another message than "?key=".
func Query(r *http.Request, allowed ...string) (url.Values, error) {
	if r.URL.RawQuery == "" {
		return nil, nil
	}
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, ops.Refuse(http.StatusBadRequest, ops.WordQuery,
			"the query cannot be read; names and values need percent encoding")
	}
	names := make([]string, 0, len(values))
	for name := range values {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		switch {
		case !slices.Contains(allowed, name):
			return nil, ops.UnknownParameter(fmt.Sprintf("%.40q", name), allowed)
		case len(values[name]) > 1:
			return nil, ops.Refuse(http.StatusBadRequest, ops.WordQuery, "%s is given more than once", name)
		}
	}
	return values, nil
}
