package bridge

import (
	"strings"
)

// route is where a subject's messages go: the stream that holds it.
type route struct {
	stream string
	lane   string
	// hidden: the stream is known by its answers alone.
	hidden bool
}

// routes is one reading of all streams' subject filters, matched without a
// look-up and without memory per subject. It never changes; a new reading
// replaces it.
type routes struct {
	exact map[string]*route
	wild  *filterNode // nil where no filter has a wildcard
	// filters is what the reading consisted of, to tell whether a later one differs.
	filters map[string]string // filter → stream
	// unsure: there are streams whose filters nobody could tell. A subject that no
	// filter matches may be theirs, so it is not known to be core.
	unsure bool
}

// filterNode is one token of the filters that have wildcards.
type filterNode struct {
	literal map[string]*filterNode
	star    *filterNode
	here    *route // a filter ends here
	rest    *route // a filter ends here with ">"
}

// newRoutes builds the routes of the given filters.
func newRoutes(filters map[string]string) *routes {
	r := &routes{exact: map[string]*route{}, filters: filters}
	byStream := map[string]*route{}
	for filter, stream := range filters {
		to := byStream[stream]
		if to == nil {
			to = &route{stream: stream, lane: "js:" + stream}
			byStream[stream] = to
		}
		if !strings.ContainsAny(filter, "*>") {
			r.exact[filter] = to
			continue
		}
		if r.wild == nil {
			r.wild = &filterNode{}
		}
		r.wild.insert(filter, to)
	}
	return r
}

func (n *filterNode) insert(filter string, to *route) {
	for rest := filter; ; {
		token, after, more := strings.Cut(rest, ".")
		if token == ">" && !more {
			n.rest = to
			return
		}
		next := n.star
		if token != "*" {
			next = n.literal[token]
		}
		if next == nil {
			next = &filterNode{}
			switch {
			case token == "*":
				n.star = next
			case n.literal == nil:
				n.literal = map[string]*filterNode{token: next}
			default:
				n.literal[token] = next
			}
		}
		if n = next; !more {
			n.here = to
			return
		}
		rest = after
	}
}

// match finds the stream that holds a literal subject, nil where it is core
// NATS. The filters of two streams never overlap, so the first hit is the only.
func (r *routes) match(subject string) *route {
	if to, ok := r.exact[subject]; ok {
		return to
	}
	if r.wild == nil {
		return nil
	}
	return r.wild.match(subject)
}

func (n *filterNode) match(subject string) *route {
	if n.rest != nil {
		return n.rest
	}
	token, after, more := subject, "", false
	if i := strings.IndexByte(subject, '.'); i >= 0 {
		token, after, more = subject[:i], subject[i+1:], true
	}
	for _, next := range [...]*filterNode{n.literal[token], n.star} {
		if next == nil {
			continue
		}
		if !more {
			if next.here != nil {
				return next.here
			}
		} else if to := next.match(after); to != nil {
			return to
		}
	}
	return nil
}
