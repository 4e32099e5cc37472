// Code generated from bridge/wire by go generate; DO NOT EDIT.

package wire

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Decode reads a push by tag from its intake subject, its headers and the size of its body. It checks everything that
// needs neither a clock nor a server; the caller calls CheckDue and CheckSize. The map is not changed, and the result
// shares its strings.
func Decode(subject, prefix string, h map[string][]string, body int) (Push, error) {
	if len(subject) <= len(prefix) || !isUnder(subject, prefix) {
		return Push{}, &Error{Word: WordTopic, Field: "subject",
			Detail: fmt.Sprintf("%s does not lie under %q", Quote(subject), prefix+".")}
	}
	p := Push{Topic: subject[len(prefix)+1:]}
	if err := CheckTarget(p.Topic, prefix); err != nil {
		return Push{}, err
	}
	var (
		user  HeaderList
		text  [len(options)]string
		given [len(options)]bool
		why   string // the header that holds the reason
	)
	for name, values := range h {
		if len(values) == 0 {
			continue
		}
		if !HasPrefixFold(name, "tarry-") {
			if !strings.EqualFold(name, HeaderMsgID) {
				user.Add(name, values)
			}
			continue
		}
		i := optionOf(name)
		switch {
		case i == written:
			// maps have no order, so of several the lowest name counts
			if strings.EqualFold(name, HeaderReason) && (why == "" || name < why) {
				why = name
			}
		case i == unknown:
			user.Refuse(name,
				&Error{Word: WordUnknown, Field: QuoteName(name), Detail: "is not a header that tarry knows"})
		case len(values) > 1 || given[i]:
			user.Refuse(options[i].header,
				&Error{Word: WordRepeated, Field: options[i].header, Detail: "is given more than once"})
		default:
			text[i], given[i] = strings.Trim(values[0], " \t"), true
		}
	}
	var err error
	if p.Headers, err = user.Finish(); err == nil {
		err = p.CheckStatus(body)
	}
	if err != nil {
		return Push{}, err
	}
	for i, o := range options {
		if !given[i] {
			continue
		}
		if err := p.Set(o.field, text[i]); err != nil {
			return Push{}, under(o.header, err)
		}
	}
	if why != "" && p.Attempt > 1 {
		p.Reason = CleanReason(h[why][0])
	}
	if err := p.Check(prefix); err != nil {
		return Push{}, underHeader(err)
	}
	return p, nil
}

// Encode is the inverse of Decode: it returns the intake subject and the headers that Decode reads as the same push.
func Encode(p Push, prefix string) (subject string, h map[string][]string) {
	h = make(map[string][]string, len(p.Headers)+4)
	for _, u := range p.Headers {
		h[u.Name] = append(h[u.Name], u.Value)
	}
	set := func(name, value string) {
		if value != "" {
			h[name] = []string{value}
		}
	}
	set(HeaderDelay, p.DelayText)
	if p.HasAt {
		set(HeaderAt, FormatAt(p.At))
	}
	set(HeaderID, p.ID)
	set(HeaderKey, p.Key)
	set(HeaderUID, p.UID)
	set(HeaderOnDuplicate, p.OnDuplicate)
	set(HeaderDeliver, p.Deliver)
	number := func(name string, n int64) {
		if n > 0 {
			set(name, strconv.FormatInt(n, 10))
		}
	}
	span := func(name string, d time.Duration) {
		if d > 0 {
			set(name, string(appendSpan(nil, d)))
		}
	}
	span(HeaderLease, p.Lease)
	number(HeaderPriority, int64(p.Priority))
	span(HeaderTTL, p.TTL)
	number(HeaderAttempt, int64(p.Attempt))
	span(HeaderMaxWait, p.MaxWait)
	set(HeaderRetry, p.Retry.String())
	set(HeaderReason, p.Reason)
	return IntakeSubject(prefix, p.Topic), h
}

const (
	unknown = -1
	written = -2 // written by tarry itself and dropped; the reason of a retry is the exception
)

// optionOf finds the tag with this header name, in any case.
func optionOf(name string) int {
	for i := range options {
		if strings.EqualFold(name, options[i].header) {
			return i
		}
	}
	for _, own := range [...]string{HeaderDue, HeaderReason, HeaderSubject, HeaderOnce} {
		if strings.EqualFold(name, own) {
			return written
		}
	}
	return unknown
}

// IsMisspelt reports whether a header looks like one of tarry's but is none that tarry reads or writes. On a message
// that tarry did not deliver (delivered messages have Tarry-Due) it is a typing error: without the intended tag the
// message would leave at once.
func IsMisspelt(name string) bool {
	return HasPrefixFold(name, "tarry-") && optionOf(name) == unknown && !strings.EqualFold(name, HeaderIncomplete)
}

// underHeader replaces the JSON field of an error with the tag's header.
func underHeader(err error) error {
	if e, ok := err.(*Error); ok {
		switch e.Word {
		case WordNoDelay:
			e.Field, e.Detail = HeaderDelay, "and Tarry-At are both missing; a push needs one of them"
		case WordDelayAndAt:
			e.Field, e.Detail = HeaderDelay, "and Tarry-At are both given; a push takes one of them"
		case WordAttempt:
			e.Field, e.Detail = HeaderAttempt, "needs the Tarry-Id of the message that is tried again"
		case WordOnDuplicate:
			e.Field = HeaderOnDuplicate
		case WordMaxWait:
			e.Field, e.Detail = HeaderMaxWait, "requires Tarry-On-Duplicate: debounce"
		case WordLease:
			e.Field, e.Detail = HeaderLease, "requires Tarry-Deliver: pull"
		}
	}
	return err
}
