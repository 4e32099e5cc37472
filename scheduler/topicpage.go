package scheduler

import "slices"

// TopicPage selects the topics of a page: the first ones by name after the last topic of the previous page. A store
// passes its topics to Meet in any order; a topic may be passed more than once.
type TopicPage struct {
	after string
	limit int
	names []string
	// last is the highest name on the page once it is full; later names are not on it.
	last string
	full bool
}

// NewTopicPage returns an empty page for up to limit topics, at least one.
func NewTopicPage(after string, limit int) *TopicPage {
	return &TopicPage{after: after, limit: max(limit, 1)}
}

// Meet adds a topic if it belongs on the page.
func (p *TopicPage) Meet(topic string) {
	if topic <= p.after || p.full && topic >= p.last {
		return
	}
	if p.names = append(p.names, topic); len(p.names) >= 2*p.limit {
		p.cut()
	}
}

// Topics returns the topics of the page, in order.
func (p *TopicPage) Topics() []string {
	p.cut()
	return p.names
}

// cut removes repeated names and names beyond the page.
func (p *TopicPage) cut() {
	slices.Sort(p.names)
	p.names = slices.Compact(p.names)
	if len(p.names) >= p.limit {
		p.names = p.names[:p.limit]
		p.last, p.full = p.names[p.limit-1], true
	}
}
