package memory

// line holds the serial messages of a topic and key. At most one of them has the key: the leased one, or the one that
// waits for its retry. While none has it, the first stands in the topic's order, as the one that has it does while it
// waits; all others wait behind.
type line struct {
	holder, first *entry
	behind        order // by score
}

// lineOf returns the line of an entry, or nil if it is not serial, has ended or waits for the leader.
func (b *bucket) lineOf(e *entry) *line {
	if e.message == nil || !e.message.Serial || e.pull == nil || e.pull.aside {
		return nil
	}
	name := e.message.Topic + "\x00" + e.message.Key
	l := b.lines[name]
	if l == nil {
		l = new(line)
		b.lines[name] = l
	}
	return l
}

// lineUp gives an entry that is about to enter its order the key, or its place behind.
func (b *bucket) lineUp(e *entry) {
	l := b.lineOf(e)
	switch {
	case l == nil:
	case e.leased() != nil || e.pull.keeps:
		l.holder = e
		b.standBehind(l)
	case l.holder != nil || l.first != nil &&
		slot{l.first.message.Score(), l.first}.before(slot{e.message.Score(), e}):
		e.pull.behind = true
	default:
		b.standBehind(l)
		l.first = e
	}
}

// standBehind takes the first of a line out of the topic's order.
func (b *bucket) standBehind(l *line) {
	if e := l.first; e != nil {
		b.home(e).remove(e)
		b.tidy(e.message.Topic)
		l.first, e.pull.behind = nil, true
		b.home(e).push(e, e.message.Score())
		b.behind[e.message.Topic]++
	}
}

// stepOut takes an entry that has left its order out of its line, and puts the next one in its stead.
func (b *bucket) stepOut(e *entry) {
	l := b.lineOf(e)
	if l == nil {
		return
	}
	switch e {
	case l.holder:
		l.holder = nil
	case l.first:
		l.first = nil
	}
	e.pull.behind, e.pull.keeps = false, false
	if l.holder != nil || l.first != nil {
		return
	}
	if len(l.behind) == 0 {
		delete(b.lines, e.message.Topic+"\x00"+e.message.Key)
		return
	}
	next := l.behind[0].entry
	l.behind.remove(next)
	b.unhold(next.message.Topic)
	next.pull.behind, l.first = false, next
	b.hasten(next)
	b.home(next).push(next, next.message.Rank())
}

// unhold counts one message less that waits behind another.
func (b *bucket) unhold(topic string) {
	if b.behind[topic]--; b.behind[topic] == 0 {
		delete(b.behind, topic)
	}
}
