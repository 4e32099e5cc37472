package tarry

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tarry-mq/tarry/bridge/tarry/internal/wire"
)

// The headers of a tagged message. Producers in other languages set the same ones; names match without case.
const (
	HeaderDelay       = wire.HeaderDelay       // a duration such as 20m or 1d12h
	HeaderAt          = wire.HeaderAt          // RFC 3339, or unix milliseconds
	HeaderID          = wire.HeaderID          // what the producer calls the message
	HeaderKey         = wire.HeaderKey         // the business key; messages of one key keep their order
	HeaderOnDuplicate = wire.HeaderOnDuplicate // reject, keep, replace or debounce, see [OnDuplicate]
	HeaderMaxWait     = wire.HeaderMaxWait     // with debounce: how long after the first push at the latest
	HeaderPriority    = wire.HeaderPriority    // 0 to 255, high first
	HeaderTTL         = wire.HeaderTTL         // how long after its due time it is still worth delivering
	HeaderRetry       = wire.HeaderRetry       // the schedule of its retries, see [Retries]
	HeaderDeliver     = wire.HeaderDeliver     // mq or pull, see [Deliver]
	HeaderLease       = wire.HeaderLease       // how long a consumer that pulls it may hold it
	HeaderAttempt     = wire.HeaderAttempt     // which delivery this is
	HeaderReason      = wire.HeaderReason      // on a retry: why the consumer failed
	HeaderDue         = wire.HeaderDue         // on delivered messages: the moment asked for, in unix milliseconds
	HeaderOnce        = wire.HeaderOnce        // on delivered messages: a secret from which the id of a retry is made
	HeaderSubject     = wire.HeaderSubject     // on messages delivered on another subject (a partition): their topic
)

// DuplicateMode is what a push does if a message under its name is already waiting, for [OnDuplicate].
type DuplicateMode string

// The modes of [OnDuplicate].
const (
	Reject   DuplicateMode = wire.Reject   // the same content again is a retry, other content is refused; the default
	Keep     DuplicateMode = wire.Keep     // the first stays, the push is absorbed
	Replace  DuplicateMode = wire.Replace  // the last one's content, due time and priority win
	Debounce DuplicateMode = wire.Debounce // Replace, but due no later than MaxWait after the first
)

// Delivery ways, for [Deliver].
const (
	MQ   = wire.MQ       // publish it on its subject
	Pull = wire.PullWord // keep it for consumers that fetch it, see [FromPull]
)

// TagOption sets one tag of a message, see [Tag].
type TagOption func(h nats.Header)

// Tag sets tags on msg, replacing earlier ones of the same kind, and returns msg:
//
//	err := conn.PublishMsg(tarry.Tag(msg, tarry.In(20*time.Minute), tarry.As("order-7131")))
//
// An invalid value is refused when msg is published. So are [As], [Priority], [TTL], [OnDuplicate] and [MaxWait]
// without [In] or [At].
func Tag(msg *nats.Msg, tags ...TagOption) *nats.Msg {
	if msg.Header == nil {
		msg.Header = nats.Header{}
	}
	for _, set := range tags {
		set(msg.Header)
	}
	return msg
}

// In makes a message due after d, counted from when tarry stores it. It replaces an earlier delay or time.
func In(d time.Duration) TagOption {
	return func(h nats.Header) {
		remove(h, HeaderAt)
		set(h, HeaderDelay, d.String())
	}
}

// At makes a message due at t; a time in the past means now. It replaces an earlier delay or time. A time before 3
// March 1973, such as the zero time, is refused.
func At(t time.Time) TagOption {
	return func(h nats.Header) {
		remove(h, HeaderDelay)
		set(h, HeaderAt, t.UTC().Format(time.RFC3339Nano))
	}
}

// As names a message, so that it can be canceled, looked up, and published again after an unknown outcome.
func As(id string) TagOption { return tag(HeaderID, id) }

// Key gives a message a business key.
func Key(key string) TagOption { return tag(HeaderKey, key) }

// Priority makes tarry deliver a message before others that are due in the same millisecond.
func Priority(p uint8) TagOption { return tag(HeaderPriority, strconv.Itoa(int(p))) }

// TTL sets how long after its due time a message is still worth delivering.
func TTL(d time.Duration) TagOption { return tag(HeaderTTL, d.String()) }

// OnDuplicate sets what happens if a message under the same name is already waiting. Messages without a name merge if
// their content is the same.
func OnDuplicate(mode DuplicateMode) TagOption { return tag(HeaderOnDuplicate, string(mode)) }

// MaxWait bounds how long pushes with [Debounce] can postpone the message, counted from the first of them.
func MaxWait(d time.Duration) TagOption { return tag(HeaderMaxWait, d.String()) }

// Deliver says how a message is delivered, [MQ] or [Pull]. Without this tag the topic's setting applies.
func Deliver(how string) TagOption { return tag(HeaderDeliver, how) }

// Lease says how long a consumer that pulls a message may hold it.
func Lease(d time.Duration) TagOption { return tag(HeaderLease, d.String()) }

// Retries gives a message a schedule of retries, for consumers that send it back (see [Client.Retry]). After the last
// retry the message is dead. Without this tag the topic's schedule applies.
func Retries(s Schedule) TagOption { return tag(HeaderRetry, string(s)) }

// Schedule is a schedule of retries as Tarry-Retry carries it: delays such as "0,2m,10m*5,1h", or "exp(1s,1h,10)", with
// "~20%" behind either for jitter.
type Schedule string

// Exponential returns a schedule of n delays that begins with first and doubles each delay up to most.
func Exponential(first, most time.Duration, n int) Schedule {
	return Schedule(fmt.Sprintf("exp(%v,%v,%d)", first, most, n))
}

// Jitter returns the schedule with each delay varied randomly by up to the given percentage in either direction.
func (s Schedule) Jitter(percent int) Schedule { return s + Schedule(fmt.Sprintf("~%d%%", percent)) }

func tag(name, value string) TagOption {
	return func(h nats.Header) { set(h, name, value) }
}

// tagged reports whether a message is meant for tarry because it has a due time. A message that has an unknown header
// of tarry, or one that needs a due time, counts as tagged, too, and is then refused. tagged runs before every publish
// of the producer, so it allocates nothing and reads only the names.
func tagged(h nats.Header) bool {
	misspelt, waits := false, false
	for name, values := range h {
		if len(values) == 0 {
			continue
		}
		if strings.EqualFold(name, HeaderDelay) || strings.EqualFold(name, HeaderAt) ||
			strings.EqualFold(name, headerSchedule) {
			return true
		}
		misspelt = misspelt || wire.IsMisspelt(name)
		waits = waits || wantsDue(name)
	}
	// A message that tarry delivered is passed on unchanged, and a consumer's retry waits according to its schedule.
	return (misspelt || waits && !has(h, HeaderAttempt)) && !has(h, HeaderDue)
}

// wantsDue reports whether a header means nothing on a message that does not wait. A key and a schedule of retries have
// a meaning: they are for the consumer that sends the message back.
func wantsDue(name string) bool {
	for _, tag := range [...]string{HeaderID, HeaderPriority, HeaderTTL, HeaderOnDuplicate, HeaderMaxWait,
		wire.HeaderDeliver, wire.HeaderLease} {
		if len(name) == len(tag) && strings.EqualFold(name, tag) {
			return true
		}
	}
	return false
}

// Header names match without case here, as they do in the daemon; nats.go keeps the producer's spelling.

func set(h nats.Header, name, value string) {
	remove(h, name)
	h[name] = []string{value}
}

// find returns the first value of a header, or an empty string.
func find(h nats.Header, name string) string {
	if v := h[name]; len(v) > 0 {
		return v[0]
	}
	for k, v := range h {
		if strings.EqualFold(k, name) && len(v) > 0 {
			return v[0]
		}
	}
	return ""
}

// has reports whether a header is present with a value, even an empty one.
func has(h nats.Header, name string) bool {
	for k, v := range h {
		if strings.EqualFold(k, name) && len(v) > 0 {
			return true
		}
	}
	return false
}

// remove removes a header in every spelling.
func remove(h nats.Header, name string) {
	for k := range h {
		if strings.EqualFold(k, name) {
			delete(h, k)
		}
	}
}
