package api

import (
	"context"
	"net"
	"net/http"

	"github.com/tarry-mq/tarry/bridge/ops"
	"github.com/tarry-mq/tarry/bridge/wire"
	"github.com/tarry-mq/tarry/scheduler"
)

// topics lists the topics that have messages, in the order of their names, with the numbers of their messages.
func (s *Server) topics(w http.ResponseWriter, r *http.Request) error {
	after, limit := "", defaultList
	values, err := query(r, "limit", "cursor")
	p := params{values, err}
	p.read("limit", func(text string) (err error) { limit, err = pageLimit(text); return err })
	p.read("cursor", func(text string) (err error) { after, err = openCursor(listTopics, "", text); return err })
	if p.err != nil {
		return p.err
	}
	a := ops.Topics{Topics: []ops.TopicCount{}, Paused: []scheduler.Pause{}}
	if s.cfg.Webhooks != nil {
		a.Webhooks = s.cfg.Webhooks()
	}
	return s.show(w, r, "store", &a, func(ctx context.Context) error {
		// one more shows that there is a next page
		counts, err := s.cfg.Service.TopicCounts(ctx, after, limit+1)
		if err != nil {
			return err
		}
		if len(counts) > limit {
			counts = counts[:limit]
			a.Cursor = sealCursor(listTopics, "", counts[limit-1].Topic)
		}
		names := make([]string, len(counts))
		for i := range counts {
			names[i] = counts[i].Topic
		}
		parked, err := s.cfg.Service.ParkedTopics(ctx, names)
		if err != nil {
			return err
		}
		for i := range counts {
			a.Topics = append(a.Topics, ops.TopicCount{TopicCount: counts[i], Why: ops.WhyOf(parked[counts[i].Topic])})
		}
		pauses, err := s.cfg.Service.Pauses(ctx)
		a.Paused = append(a.Paused, pauses...)
		return err
	})
}

// topic counts the messages of one topic. A topic without messages has zero counts; it is not an unknown topic.
func (s *Server) topic(w http.ResponseWriter, r *http.Request) error {
	topic := r.PathValue("topic")
	if err := wire.CheckOneTopic(topic); err != nil {
		return err
	}
	var a ops.TopicCounts
	return s.show(w, r, "store", &a, func(ctx context.Context) error {
		count, err := s.cfg.Service.TopicCount(ctx, topic)
		if err != nil {
			return err
		}
		a.TopicCount.TopicCount = count
		parked, err := s.cfg.Service.ParkedTopics(ctx, []string{topic})
		if err != nil {
			return err
		}
		a.Why = ops.WhyOf(parked[topic])
		pauses, err := s.cfg.Service.Pauses(ctx)
		for i := range pauses { // the topic's own pause, or else the first that matches
			if p := &pauses[i]; p.Pattern == topic || a.Paused == nil && scheduler.Matches(p.Pattern, topic) {
				a.Paused = p
			}
		}
		return err
	})
}

// pause holds back the due messages of topics that match a pattern. Pausing again replaces who paused it and since
// when.
func (s *Server) pause(w http.ResponseWriter, r *http.Request) error {
	pattern, err := s.pattern(w, r)
	if err != nil {
		return err
	}
	by := who(r)
	s.audit(r, "pause", false).Str("topic", pattern)
	return s.done(w, r, func(ctx context.Context) (any, error) {
		inEffect, err := s.cfg.Service.Pause(ctx, pattern, by)
		return ops.Paused{Pattern: pattern, Paused: true, By: by, InEffect: inEffect}, err
	})
}

// resume ends the pause of exactly this pattern.
func (s *Server) resume(w http.ResponseWriter, r *http.Request) error {
	pattern, err := s.pattern(w, r)
	if err != nil {
		return err
	}
	s.audit(r, "resume", false).Str("topic", pattern)
	return s.done(w, r, func(ctx context.Context) (any, error) {
		found, inEffect, err := s.cfg.Service.Resume(ctx, pattern)
		if err == nil && !found {
			err = refusal(http.StatusNotFound, WordNotPaused,
				"%.300q is not paused; a resume needs the pattern exactly as it was paused", pattern)
		}
		return ops.Paused{Pattern: pattern, InEffect: inEffect}, err
	})
}

// pattern reads the pattern from the path of a request whose body is empty.
func (s *Server) pattern(w http.ResponseWriter, r *http.Request) (string, error) {
	pattern := r.PathValue("topic")
	if err := wire.CheckPattern(pattern); err != nil {
		return "", err
	}
	return decoded(s, w, r, func(body []byte) (string, error) {
		return pattern, ops.DecodeEmpty(body, "a pause or a resume")
	})
}

// who returns the caller as a pause records it: its name, or else its address.
func who(r *http.Request) string {
	if visit := visitOf(r); visit.token != nil {
		return visit.name()
	}
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}
