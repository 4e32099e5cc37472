package doctor

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/tarry-mq/tarry/bridge/link"
	"github.com/tarry-mq/tarry/bridge/wire"
	"github.com/tarry-mq/tarry/cmd/internal/config"
)

// topics compares the settings of topics with the streams that exist. Conflicts among the settings themselves are found
// when they are loaded.
func (s *natsSeen) topics(streams []link.StreamInfo) {
	held := filtersOf(streams)
	s.ends(held)
	s.partitions(held)
}

// filter is a filter of a stream's subjects.
type filter struct{ subjects, stream string }

// intake reports whether the stream is one of tarry's own, of this namespace or another.
func (f filter) intake() bool { return strings.HasPrefix(f.stream, ownStreams) }

// filtersOf returns the filters of all streams that acknowledge a delivery.
func filtersOf(streams []link.StreamInfo) (held []filter) {
	for i := range streams {
		c := &streams[i].Config
		if c.NoAck {
			continue
		}
		for _, subjects := range c.Subjects {
			held = append(held, filter{subjects, c.Name})
		}
	}
	return held
}

// holder returns the filter that covers all of a pattern. Without one, messages due there are published on core NATS.
func holder(held []filter, pattern string) (filter, bool) {
	i := slices.IndexFunc(held, func(f filter) bool { return wire.Covers(f.subjects, pattern) })
	if i < 0 {
		return filter{}, false
	}
	return held[i], true
}

// ends checks the subjects of the copies of dead and expired messages. tarry publishes a copy again while a stream
// refuses it, but not if there is no stream and nobody listens.
func (s *natsSeen) ends(held []filter) {
	const name = "topic ends"
	var lost, back []string
	n := 0
	for i, t := range s.cfg.Topics {
		for _, end := range [...]struct{ field, subject string }{{"dead", t.Dead}, {"expired", t.Expired}} {
			if end.subject == "" {
				continue
			}
			n++
			setting := fmt.Sprintf("topics[%d].%s (%s)", i, end.field, end.subject)
			for _, pattern := range leavesOn(s.cfg.Topics, end.subject) {
				f, is := holder(held, pattern)
				if is && !f.intake() {
					continue
				}
				if is {
					back = append(back, fmt.Sprintf("%s in %s", setting, f.stream))
				} else {
					lost = append(lost, setting)
				}
				break // one part is enough
			}
		}
	}
	if len(back) > 0 {
		s.fail(name, "the copies of dead and expired messages would be pushed as new messages, into an intake of "+
			"tarry: "+
			shorten(back), "name a subject that is in no stream "+ownStreams+"…")
	}
	if len(lost) > 0 {
		s.warn(name, "no stream has the subject of the copies, so they are lost if nobody listens: "+shorten(lost),
			"add the subject to a stream")
	}
	if n > 0 && len(lost)+len(back) == 0 {
		s.ok(name, "streams have all subjects of copies")
	}
}

// partitions checks whether the streams that have a partitioned topic also have its parts.
func (s *natsSeen) partitions(held []filter) {
	const name = "topic partitions"
	var gaps []string
	n := 0
	for i, t := range s.cfg.Topics {
		if t.Partitions == 0 {
			continue
		}
		n++
		for _, f := range held {
			if f.intake() || !wire.Overlap(f.subjects, t.Pattern) || isPart(f.subjects, t.Pattern) {
				continue
			}
			topics := common(f.subjects, t.Pattern)
			if slices.ContainsFunc(s.cfg.Topics[:i],
				func(earlier config.Topic) bool { return wire.Covers(earlier.Pattern, topics) }) {
				continue // the earlier pattern applies to them
			}
			for _, part := range partsOf(topics, t.Partitions) {
				if _, is := holder(held, part); !is {
					gaps = append(gaps, fmt.Sprintf("topics[%d]: %s has %s and not %s", i, f.stream, f.subjects, part))
					break
				}
			}
		}
	}
	switch {
	case len(gaps) > 0:
		s.warn(name, "messages of a partitioned topic are published to its parts, which the stream of the topic does "+
			"not have: "+shorten(gaps), "add the parts to the stream (orders.* for orders): otherwise they reach only "+
			"subscribers that listen at that moment")
	case n > 0:
		s.ok(name, "no stream has a topic without its parts")
	}
}

// leavesOn returns the subjects to which a message due on a topic may be published, as patterns.
func leavesOn(all []config.Topic, topic string) []string {
	i := slices.IndexFunc(all, func(t config.Topic) bool { return wire.Covers(t.Pattern, topic) })
	if i < 0 || all[i].Partitions == 0 {
		return []string{topic}
	}
	return partsOf(topic, all[i].Partitions)
}

// partsOf returns the parts of all topics that match a pattern. No number can follow a final >.
func partsOf(pattern string, n int) []string {
	if open, ends := strings.CutSuffix(pattern, ">"); ends {
		return []string{open + "*.>"}
	}
	parts := make([]string, n)
	for i := range parts {
		parts[i] = pattern + "." + strconv.Itoa(i)
	}
	return parts
}

// isPart reports whether a filter may be for the parts of a pattern's topics, and not for the topics.
func isPart(subjects, pattern string) bool {
	dot := strings.LastIndexByte(subjects, '.')
	if dot < 0 {
		return false
	}
	_, err := strconv.ParseUint(subjects[dot+1:], 10, 16)
	return (err == nil || subjects[dot+1:] == "*") && wire.Overlap(subjects[:dot], pattern)
}

// common returns the pattern of the subjects that two overlapping patterns both match.
func common(a, b string) string {
	for whole := ""; ; {
		x, restA, more := strings.Cut(a, ".")
		y, restB, _ := strings.Cut(b, ".")
		switch {
		case x == ">":
			return whole + b
		case y == ">":
			return whole + a
		case x == "*":
			x = y
		}
		if whole += x; !more {
			return whole
		}
		whole, a, b = whole+".", restA, restB
	}
}
