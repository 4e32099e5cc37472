package webhook

import "sync/atomic"

// places says which topics are consumed. A target may take what places are free, but for as many as it has already: so
// one alone gets half of them, and the next one always finds some. (Dynamic thresholds, Choudhury and Hahne, 1998.)
type places struct {
	of          func(topic string) *target
	run         func(topic string)
	most, least int
	taken       int
	topics      map[string]*line // of those that are consumed, or wait for their turn
}

// line are the topics of a target, through all changes of its settings.
type line struct {
	runs   map[string]bool // whether it was heard of meanwhile
	queue  []string        // topics that wait for a place
	queued atomic.Int64    // how many these are
}

func (p *places) free(l *line) bool { return len(l.runs) < max(p.most-p.taken, p.least) }

// begin has a topic consumed, now or in its turn.
func (p *places) begin(topic string) {
	if l := p.topics[topic]; l != nil {
		if _, runs := l.runs[topic]; runs {
			l.runs[topic] = true
		}
		return
	}
	t := p.of(topic)
	if t == nil {
		return
	}
	switch l := t.line; {
	case p.free(l):
		if l.runs == nil {
			l.runs = map[string]bool{}
		}
		p.topics[topic], l.runs[topic] = l, false
		p.taken++
		p.run(topic)
	case len(l.queue) < queuedMost:
		p.topics[topic] = l
		l.queue = append(l.queue, topic)
		l.queued.Add(1)
	}
}

// end frees the place of a topic for the next ones.
func (p *places) end(topic string) {
	l := p.topics[topic]
	again := l.runs[topic]
	delete(p.topics, topic)
	delete(l.runs, topic)
	p.taken--
	for len(l.queue) > 0 && p.free(l) {
		next := l.queue[0]
		l.queue = l.queue[1:]
		l.queued.Add(-1)
		delete(p.topics, next)
		p.begin(next) // its pattern may be another by now
	}
	if again {
		p.begin(topic)
	}
}
