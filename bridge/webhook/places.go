package webhook

// places says which topics are consumed: of each target as many as it has places, and the others in turn.
type places struct {
	of     func(topic string) *target
	share  func() int // the places of a target
	run    func(topic string)
	topics map[string]*place
}

// place is a topic that is consumed, or waits for its turn.
type place struct {
	target *target
	runs   bool
	again  bool // it was heard of meanwhile
}

// begin has a topic consumed, now or in its turn.
func (p *places) begin(topic string) {
	if known := p.topics[topic]; known != nil {
		known.again = known.runs
		return
	}
	t := p.of(topic)
	switch {
	case t == nil:
	case t.running < p.share():
		t.running++
		p.topics[topic] = &place{target: t, runs: true}
		p.run(topic)
	case len(t.queue) < queuedMost:
		p.topics[topic] = &place{target: t}
		t.queue = append(t.queue, topic)
		t.queued.Add(1)
	}
}

// end frees the place of a topic for the next ones.
func (p *places) end(topic string) {
	was := p.topics[topic]
	delete(p.topics, topic)
	t := was.target
	t.running--
	for len(t.queue) > 0 && t.running < p.share() {
		next := t.queue[0]
		t.queue = t.queue[1:]
		t.queued.Add(-1)
		delete(p.topics, next)
		p.begin(next) // by the target that it has by now
	}
	if was.again {
		p.begin(topic)
	}
}
