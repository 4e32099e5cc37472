package tarry

import (
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tarry-mq/tarry/bridge/tarry/internal/wire"
)

// The headers of a tagged message. Producers in other languages set the same ones; names match without case.
const (
	HeaderDelay       = wire.HeaderDelay       // a duration such as 20m or 1d12h, or whole milliseconds
	HeaderAt          = wire.HeaderAt          // RFC 3339, or unix milliseconds
	HeaderID          = wire.HeaderID          // what the producer calls the message
	HeaderKey         = wire.HeaderKey         // the business key; messages of one key keep their order
	HeaderOnDuplicate = wire.HeaderOnDuplicate // reject, keep, replace or debounce, see OnDuplicate
	HeaderMaxWait     = wire.HeaderMaxWait     // with debounce: how long after the first push at the latest
	HeaderPriority    = wire.HeaderPriority    // 0 to 255, high first
	HeaderTTL         = wire.HeaderTTL         // how long after its due time it is still worth delivering
	HeaderRetry       = wire.HeaderRetry       // the schedule of its retries, see Retries
	HeaderAttempt     = wire.HeaderAttempt     // which delivery this is
	HeaderReason      = wire.HeaderReason      // on a retry: why the consumer failed
	HeaderDue         = wire.HeaderDue         // on delivered messages: the moment asked for, in unix milliseconds
	HeaderSubject     = wire.HeaderSubject     // on messages delivered elsewhere (in a partition): their topic
)

// What a push does when a message under its name waits already, for [OnDuplicate].
const (
	Reject   = wire.Reject   // the same content again is a retry, other content is refused; so it is without a word
	Keep     = wire.Keep     // the first stays, the push is absorbed
	Replace  = wire.Replace  // the last one's content, due time and priority win
	Debounce = wire.Debounce // Replace, but due no later than MaxWait after the first
)

// Delay makes msg due after d, counted from when tarry stores it. It replaces an earlier delay or time, and returns
// msg.
func Delay(msg *nats.Msg, d time.Duration) *nats.Msg {
	remove(msg.Header, HeaderAt)
	return set(msg, HeaderDelay, d.String())
}

// At makes msg due at t; the past means now. It replaces an earlier delay or time, and returns msg. The zero time, as
// any other before 3 March 1973, is refused when msg is published.
func At(msg *nats.Msg, t time.Time) *nats.Msg {
	remove(msg.Header, HeaderDelay)
	return set(msg, HeaderAt, t.UTC().Format(time.RFC3339Nano))
}

// ID names msg, so that it can be canceled, looked up, and published again after an unknown outcome. Without a due time
// it is refused when msg is published, as are [Priority], [TTL], [OnDuplicate] and [MaxWait].
func ID(msg *nats.Msg, id string) *nats.Msg { return set(msg, HeaderID, id) }

// Key gives msg a business key.
func Key(msg *nats.Msg, key string) *nats.Msg { return set(msg, HeaderKey, key) }

// Priority lets msg leave before others due in the same millisecond.
func Priority(msg *nats.Msg, p uint8) *nats.Msg {
	return set(msg, HeaderPriority, strconv.Itoa(int(p)))
}

// TTL says how long after its due time msg is still worth delivering.
func TTL(msg *nats.Msg, d time.Duration) *nats.Msg { return set(msg, HeaderTTL, d.String()) }

// OnDuplicate says what happens when a message under msg's name waits already: [Keep], [Replace], [Debounce] or
// [Reject]. Without an ID, messages of one content merge.
func OnDuplicate(msg *nats.Msg, how string) *nats.Msg { return set(msg, HeaderOnDuplicate, how) }

// MaxWait bounds how long pushes with [Debounce] put off the message, counted from the first of them.
func MaxWait(msg *nats.Msg, d time.Duration) *nats.Msg { return set(msg, HeaderMaxWait, d.String()) }

// Retries gives msg a schedule of retries, for consumers that send it back (see [Client.RetryLater]): delays such as
// "0,2m,10m*5,1h", or "exp(1s,1h,10)" for ten that double from a second up to an hour, and "~20%" behind either to move
// each by up to so much. After the last one the message is dead. Without it the topic's schedule counts.
func Retries(msg *nats.Msg, schedule string) *nats.Msg { return set(msg, HeaderRetry, schedule) }

func set(msg *nats.Msg, name, value string) *nats.Msg {
	remove(msg.Header, name)
	if msg.Header == nil {
		msg.Header = nats.Header{}
	}
	msg.Header[name] = []string{value}
	return msg
}

// tagged reports whether a message is meant for tarry: it has a due time, or a misspelt header of tarry's or one that
// wants a due time, which is then refused. It stands before every publish of the producer, so it allocates nothing and
// looks at nothing but the names.
func tagged(h nats.Header) bool {
	misspelt, waits := false, false
	for name, values := range h {
		switch len(name) {
		case len(HeaderDelay):
			if strings.EqualFold(name, HeaderDelay) && len(values) > 0 {
				return true
			}
		case len(HeaderAt):
			if strings.EqualFold(name, HeaderAt) && len(values) > 0 {
				return true
			}
		case len(headerSchedule):
			if strings.EqualFold(name, headerSchedule) && len(values) > 0 {
				return true
			}
		}
		misspelt = misspelt || len(values) > 0 && wire.IsMisspelt(name)
		waits = waits || len(values) > 0 && wantsDue(name)
	}
	// What tarry delivered is passed on as it is, and a consumer's retry waits by its schedule.
	return (misspelt || waits && !has(h, HeaderAttempt)) && !has(h, HeaderDue)
}

// wantsDue reports whether a header means nothing on a message that does not wait. A key and a schedule of retries do:
// they are for the consumer that sends it back.
func wantsDue(name string) bool {
	for _, tag := range [...]string{HeaderID, HeaderPriority, HeaderTTL, HeaderOnDuplicate, HeaderMaxWait,
		wire.HeaderDeliver} {
		if len(name) == len(tag) && strings.EqualFold(name, tag) {
			return true
		}
	}
	return false
}
