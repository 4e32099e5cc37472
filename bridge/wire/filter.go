package wire

import (
	"fmt"
	"strings"
)

// Covers reports whether a filter matches every subject that another filter, or a literal subject, matches.
func Covers(filter, part string) bool {
	for {
		f, restF, moreF := strings.Cut(filter, ".")
		p, restP, moreP := strings.Cut(part, ".")
		switch {
		case f == ">" && !moreF:
			return true
		case p == ">" && !moreP, f != "*" && f != p, moreF != moreP:
			return false
		case !moreF:
			return true
		}
		filter, part = restF, restP
	}
}

// Overlap reports whether some subject matches both filters.
func Overlap(a, b string) bool {
	for {
		x, restA, moreA := strings.Cut(a, ".")
		y, restB, moreB := strings.Cut(b, ".")
		switch {
		case x == ">" && !moreA, y == ">" && !moreB:
			return true
		case x != "*" && y != "*" && x != y, moreA != moreB:
			return false
		case !moreA:
			return true
		}
		a, b = restA, restB
	}
}

// CheckOneTopic is like CheckSubject, with an error that mentions patterns, for places where the caller may have meant
// one.
func CheckOneTopic(topic string) error {
	if problem := subjectProblem(topic); problem == "" || CheckPattern(topic) != nil {
		return CheckSubject(topic)
	}
	return &Error{Word: WordTopic, Field: FieldTopic,
		Detail: Quote(topic) + " contains a wildcard; this takes one topic, no pattern"}
}

// CheckPattern accepts a pattern of subjects with NATS's wildcards: "*" for one token, a final ">" for one or more. A
// literal subject is a pattern too.
func CheckPattern(s string) error {
	literal := make([]string, 0, 8)
	for rest, more := s, true; more; {
		var one string
		switch one, rest, more = strings.Cut(rest, "."); {
		case one == "*", one == ">" && !more:
			one = "w"
		case one == ">":
			return &Error{Word: WordTopic, Field: FieldTopic, Detail: Quote(s) + ` has ">" before its end`}
		}
		literal = append(literal, one)
	}
	p := subjectProblem(strings.Join(literal, "."))
	switch {
	case len(s) > MaxSubject:
		p = fmt.Sprintf("has %d bytes, the limit is %d", len(s), MaxSubject)
	case strings.Contains(p, "wildcard"):
		p = Quote(s) + " has a wildcard that is not a token of its own"
	}
	if p != "" {
		return &Error{Word: WordTopic, Field: FieldTopic, Detail: p}
	}
	return nil
}
