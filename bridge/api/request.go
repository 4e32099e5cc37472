package api

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/tarry-mq/tarry/bridge/answer"
	"github.com/tarry-mq/tarry/bridge/wire"
)

// firstRead is what a body gets before any of it has arrived; the rest follows once this is full.
const firstRead = 64 << 10

// read reads the whole body into fresh memory. release gives back what it counted against the common limit; the memory
// itself stays with whoever holds it.
func (s *Server) read(w http.ResponseWriter, r *http.Request) (body []byte, release func(), err error) {
	held := int64(0)
	giveBack := func() { s.reading.Add(-held) }
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
		return nil, nil, refusal(http.StatusRequestEntityTooLarge, wire.WordTooLarge,
			"request body has %d bytes, the limit is %d", promised, limit)
	}
	grow := func(size int64) error {
		more := size - held
		if s.reading.Add(more) > bodiesAtOnce*limit {
			s.reading.Add(-more)
			return refusal(http.StatusServiceUnavailable, answer.WordBusy,
				"the requests being read take more than %d bytes", bodiesAtOnce*limit)
		}
		held = size
		bigger := make([]byte, len(body), size)
		copy(bigger, body)
		body = bigger
		return nil
	}
	from := http.MaxBytesReader(w, r.Body, limit)
	size := min(firstRead, limit+1)
	if promised >= 0 {
		size = min(promised, firstRead) + 1 // one more shows the end without growing
	}
	for {
		if len(body) == cap(body) {
			if err := grow(size); err != nil {
				return nil, nil, err
			}
			size = min(2*size, limit+1)
			if promised >= 0 {
				size = promised + 1
			}
		}
		n, err := from.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		if errors.Is(err, io.EOF) {
			return body, giveBack, nil
		}
		if err != nil {
			return nil, nil, broken(err, len(body))
		}
	}
}

// order reads a request that takes no query, whose body says what to do.
func (s *Server) order(w http.ResponseWriter, r *http.Request, decode func(body []byte) error) error {
	if _, err := query(r); err != nil {
		return err
	}
	return s.body(w, r, decode)
}

// body has the request's body decoded. Nothing of it is kept.
func (s *Server) body(w http.ResponseWriter, r *http.Request, decode func(body []byte) error) error {
	body, release, err := s.read(w, r)
	if err != nil {
		return err
	}
	defer release()
	return decode(body)
}

// broken is a body that did not arrive.
func broken(err error, got int) error {
	var above *http.MaxBytesError
	switch {
	case errors.As(err, &above):
		return refusal(http.StatusRequestEntityTooLarge, wire.WordTooLarge,
			"request body has more than the limit of %d bytes", above.Limit)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return refusal(http.StatusRequestTimeout, WordRequestTimeout,
			"request body took too long; %d bytes had arrived", got)
	}
	return refusal(http.StatusBadRequest, WordIncomplete, "request body broke off after %d bytes", got)
}

// jsonOnly refuses a body that says it is something else than JSON. Saying nothing is fine, and so is the type that
// curl sends by itself: the body is judged as JSON in any case.
func jsonOnly(r *http.Request) error {
	if coding := r.Header.Get("Content-Encoding"); coding != "" && !strings.EqualFold(coding, "identity") {
		return refusal(http.StatusUnsupportedMediaType, WordMediaType,
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
		return refusal(http.StatusUnsupportedMediaType, WordMediaType,
			"Content-Type %.60q is not understood; send application/json in UTF-8", given)
	}
	return nil
}

// query reads the query. A name that is not allowed is refused: "?kye=" must not cancel another message than "?key=".
func query(r *http.Request, allowed ...string) (url.Values, error) {
	if r.URL.RawQuery == "" {
		return nil, nil
	}
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, refusal(http.StatusBadRequest, WordQuery,
			"the query cannot be read; names and values need percent encoding")
	}
	names := make([]string, 0, len(values))
	for name := range values {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		switch {
		case !slices.Contains(allowed, name) && len(allowed) == 0:
			return nil, refusal(http.StatusBadRequest, WordUnknownParameter,
				"%.40q is not a parameter here; there is none", name)
		case !slices.Contains(allowed, name):
			return nil, refusal(http.StatusBadRequest, WordUnknownParameter,
				"%.40q is not a parameter here; there is %s", name, strings.Join(allowed, ", "))
		case len(values[name]) > 1:
			return nil, refusal(http.StatusBadRequest, WordQuery, "%s is given more than once", name)
		}
	}
	return values, nil
}

// params reads the parameters of a query one after the other and keeps the first mistake.
type params struct {
	values url.Values
	err    error
}

func (p *params) read(name string, parse func(text string) error) {
	if p.err == nil && p.values.Has(name) {
		p.err = parse(p.values.Get(name))
	}
}
