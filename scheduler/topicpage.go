package scheduler

import "slices"

// TopicPage finds the topics of a page: the first ones by name, after the last of the page before. A store meets it
// with its topics in whatever order they come, and as often as they come.
type TopicPage struct {
	after string
	limit int
	names []string
	// last is the highest name that may still stand on the page, once it is full.
	last string
	full bool
}

// NewTopicPage is a page of up to limit topics, at least one.
func NewTopicPage(after string, limit int) *TopicPage {
	return &TopicPage{after: after, limit: max(limit, 1)}
}

// Meet takes a topic up where it belongs to the page.
func (p *TopicPage) Meet(topic string) {
	if topic <= p.after || p.full && topic >= p.last {
		return
	}
	if p.names = append(p.names, topic); len(p.names) >= 2*p.limit {
		p.cut()
	}
}

// Topics are those of the page, in order.
func (p *TopicPage) Topics() []string {
	p.cut()
	return p.names
}

// cut lets go of what is met twice and of what stands beyond the page.
func (p *TopicPage) cut() {
	slices.Sort(p.names)
	p.names = slices.Compact(p.names)
	if len(p.names) >= p.limit {
		p.names = p.names[:p.limit]
		p.last, p.full = p.names[p.limit-1], true
	}
}
