package publish

import (
	"strings"

	"github.com/tarry-mq/tarry/bridge/link"
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

// route is where a subject's messages go: the stream that holds it.
type route struct {
	stream string
	lane   message.Lane
	// hidden reports that the stream is known only by its answers.
	hidden bool
}

// routes holds one reading of all streams' subject filters, which are matched without a look-up and without memory per
// subject. It is immutable; a new reading replaces it.
type routes struct {
	exact map[string]*route
	wild  *filterNode // nil if no filter has a wildcard
	// filters is the content of the reading, to detect whether a later one differs.
	filters map[string]string // filter → stream
	// unsure reports that there are streams whose filters are unknown. A subject that matches no filter may belong to
	// one of them, so it is not known to be core.
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
			to = &route{stream: stream, lane: message.LaneStream.Lane(stream)}
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

// match returns the stream that holds a literal subject, or nil for core NATS. The filters of two streams never
// overlap, so the first match is the only one.
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
	token, after, more := strings.Cut(subject, ".")
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

// topicLook finds the settings of successive messages, many of which have the same topic. If no topic has settings, of
// costs one comparison.
type topicLook struct {
	all   *scheduler.Topics
	topic string
	found *scheduler.Topic
}

// retry returns the retry schedule that is sent with a message: its own, or else that of its topic. of must have been
// called for the message before.
func (l *topicLook) retry(m *message.Message) *message.Retry {
	if m.Retry.Empty() && l.found != nil && l.topic == m.Topic {
		return &l.found.Retry
	}
	return &m.Retry
}

// of returns the subject on which a message leaves, and whether it is lost without a listener.
func (l *topicLook) of(m *message.Message) (subject string, drop bool) {
	if l.all == nil {
		return m.Topic, false
	}
	if m.Topic != l.topic {
		l.topic, l.found = m.Topic, l.all.Of(m.Topic)
	}
	switch {
	case l.found == nil:
		return m.Topic, false
	case l.found.Partitions > 0:
		return link.PartitionOf(m, l.found.Partitions), l.found.Drop
	}
	return m.Topic, l.found.Drop
}
