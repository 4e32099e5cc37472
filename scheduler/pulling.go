package scheduler

import (
	"context"
	"fmt"
	"time"

	"github.com/tarry-mq/tarry/scheduler/message"
)

// Pulling is the part of the timeline from which consumers pull. A message for pull waits in an order of its topic
// instead of the bucket's, and needs no leader to become ready. Every instance leases and settles; the leader alone
// ends what has lapsed.
type Pulling interface {
	// Ready tells what is ready on topics, and when more will be. The result for a Want that fails carries the error.
	Ready(ctx context.Context, wants []Want, now message.Milli) []Found
	// Lease takes ready messages into leases, in the order of their topic. A request whose Nonce was granted before,
	// also with other messages left, takes nothing: it returns what is still leased under the nonce. So it may be sent
	// twice, and late. Only one that skips all of the grant takes more, until a request with a limit of 0 has read it.
	Lease(ctx context.Context, requests []LeaseRequest) []Leased
	// Settle ends, returns or extends leases of one bucket. It stops early where a call would grow too long: it returns
	// the results of the items that it reached, at least one. A repeat finds what the first call did.
	Settle(ctx context.Context, bucket message.Bucket, term uint64, items []Settle,
		now message.Milli) ([]Settled, Effect, error)
	// Leases lists leases of one bucket.
	Leases(ctx context.Context, bucket message.Bucket, q LeaseQuery, now message.Milli) (LeasePage, error)
	// Pulled counts, for each topic, the leased messages and those that are due at each of the times.
	Pulled(ctx context.Context, topics []string, until []message.Milli) ([]PullCount, error)
	// Behind reports whether a serial message that waits comes after another one of its topic and key, and which one has
	// the key, if one has.
	Behind(ctx context.Context, uid message.UID, topic, key string) (behind bool, by message.UID, err error)
	// Upcoming lists the topics of a bucket from which a message can be pulled by until, and perhaps a few whose first
	// one comes later.
	Upcoming(ctx context.Context, bucket message.Bucket, until message.Milli) ([]string, error)
	// Failing notes that a webhook's target failed at a time, and returns since when it has done so without a success in
	// between. A failure that comes more than within after the one before is the first again. The time 0 notes a success.
	Failing(ctx context.Context, target string, at message.Milli, within time.Duration) (since message.Milli, err error)
}

// ErrPausesChanged: the caller of Lease does not know the present pauses. Nothing was leased. It is ErrUnavailable too.
var ErrPausesChanged = fmt.Errorf("%w: the pauses have changed", ErrUnavailable)

// Nonce names one call of Lease. It must not be guessed: it is all that is needed to end the leases of that call.
type Nonce uint64

// String returns the nonce in 16 hex digits.
func (n Nonce) String() string { return fmt.Sprintf("%016x", uint64(n)) }

// Want asks a bucket what is ready on topics.
type Want struct {
	Bucket message.Bucket
	Topics []TopicWant
}

// TopicWant is how many messages of a topic are wanted. 0 asks only when the next one is due.
type TopicWant struct {
	Topic string
	Count int
}

// Found answers a Want.
type Found struct {
	// Topics are the answers for the first of the topics: a store may stop before the others.
	Topics []TopicReady
	Err    error
}

// TopicReady is what is ready on a topic of one bucket.
type TopicReady struct {
	Ranks []int64 // of the first ready messages, as many as are wanted
	// Next is a time no later than when the next message is due, or 0 if none waits. Where Ranks are as many as are
	// wanted it may be 0 too.
	Next message.Milli
}

// LeaseRequest asks one bucket for ready messages of a topic.
type LeaseRequest struct {
	Bucket message.Bucket
	Topic  string
	// Limit bounds the messages, and Bytes what they weigh; with Over the first may weigh more. With a limit of 0 the
	// nonce takes nothing, and unless Again is set it can take nothing later; pauses do not matter.
	Limit, Bytes int
	Over         bool
	// Page bounds what an answer of several messages weighs, unless it is 0. Skip is how many messages of the nonce's
	// grant earlier answers had, 0 for the first request.
	Page, Skip int
	Nonce      Nonce
	// Again: the nonce may be used again if it took nothing; otherwise it is remembered then, too.
	Again bool
	// Keep is how long the nonce is remembered once its leases are over.
	Keep time.Duration
	// Now is the time by which the messages must be due. From is when the leases begin, by the latest of the clocks,
	// so that none is shorter than asked.
	Now, From message.Milli
	// Length is how long the messages are leased. Fixed: whatever they say themselves.
	Length time.Duration
	Fixed  bool
	// Consumer names the consumer for people; it may be empty.
	Consumer string
	// Pauses is the time of the last change of pauses that the caller knows. The topic is not paused by it.
	Pauses message.Milli
}

// Leased answers a LeaseRequest.
type Leased struct {
	// Known: the nonce had been granted.
	Known    bool
	Messages []LeasedMessage
	// Skip is that of a request for what did not fit into the page, or 0.
	Skip int
	// Next is a time no later than when the next message is due, or 0 if none waits.
	Next message.Milli
	// Aside is how many messages past their time to live were set aside for the leader.
	Aside int
	Err   error
}

// LeasedMessage is a message with the end of its lease.
type LeasedMessage struct {
	*message.Message
	Until message.Milli
}

// Verb is what Settle does with a lease.
type Verb uint8

// The verbs.
const (
	// Ack: the message is delivered. Without a nonce it is meant of the message, as by consumers that have no receipts:
	// one that consumers had, and that waits again, is delivered too.
	Ack Verb = iota + 1
	// Nack: the message is due again at Number, after one try more.
	Nack
	// Bury: the message is dead.
	Bury
	// Release: the message returns to its place. It counts as no try.
	Release
	// Extend: the lease ends at Number, unless it ends later.
	Extend
	// Undo: like Release, for all messages that a nonce names, unless a request with the limit 0 has read them: its caller
	// hands them out. The nonce can take no more. UID and Topic are not needed.
	Undo
	// Expire: the message, which is not leased, is past its time to live.
	Expire
	// Discard: the message stays leased, and is canceled when it would wait again or be dead. A loss of the store forgets
	// it, as it forgets leases.
	Discard
	// Until: the lease ends at Number, which is yet to come, sooner or later than it would.
	Until
)

// Settle is one item of a call of Timeline.Settle.
type Settle struct {
	Verb  Verb
	UID   message.UID
	Topic string
	// Nonce is that of the lease; 0 stands for any lease.
	Nonce  Nonce
	Number message.Milli
	// Over: only if the lease is over by now.
	Over bool
	// Kind and Reason are those of the change.
	Kind   message.Kind
	Reason string
}

// SettleCode is the outcome of one item.
type SettleCode uint8

// The outcomes.
const (
	// SettleLost: the lease does not hold, and nothing shows that this item ended it. Nothing was changed.
	SettleLost SettleCode = iota
	// SettleDone: done, by this call.
	SettleDone
	// SettleAgain: it had been done before.
	SettleAgain
)

// Settled is the outcome of one item.
type Settled struct {
	Code SettleCode
	// Info is the message as it is now. It has UID, State, Version and, if it waits, Due; or no state if it is not known.
	Info message.Info
	// Until is the end of an extended lease.
	Until message.Milli
	// Number is the certification of the store that answered.
	Number uint64
	// Unjournaled: the journal, for which answers wait, does not have it yet. Until it does, a loss of the store undoes
	// it. Only the scheduler sets it.
	Unjournaled bool
}

// LeaseQuery asks for leases: exactly one of Over, UIDs and Topic is set.
type LeaseQuery struct {
	// Over asks for leases that are over, and for messages without a lease past their time to live.
	Over bool
	// UIDs asks for the leases of these messages.
	UIDs []message.UID
	// Topic asks for the leases of a topic in the order of their end, after the place After.
	Topic, After string
	// Limit bounds the number.
	Limit int
}

// LeasePage is a part of the leases asked for.
type LeasePage struct {
	Leases []LeaseInfo
	// Due is when to ask again for what is over; 0 is never.
	Due message.Milli
	// Next is where the next page begins, or empty on the last one.
	Next string
}

// LeaseInfo is a lease, or a message past its time to live without one.
type LeaseInfo struct {
	// Message has neither headers nor body.
	Message message.Info
	Nonce   Nonce // 0 without a lease
	// Discarded: the message is canceled when it would wait again.
	Discarded bool
	message.Holding
	// Expires is the end of the message's time to live, or 0.
	Expires message.Milli
}

// Place is where the lease stands among those of its topic, by its end.
func (l *LeaseInfo) Place() string { return fmt.Sprintf("%016d%s", l.Until, l.Message.UID) }

// PullCount is how many messages of a topic are leased, and due at each of the times asked for. Held are those that
// wait behind another message of their key; they are not counted as due.
type PullCount struct {
	Leased, Held int
	Due          []int
}

// Poll asks for ready messages of a topic.
type Poll struct {
	Topic string
	// Topics, if there are any, stand in place of Topic: each has its share. Of each the first message may weigh more
	// than Bytes.
	Topics []string
	// Max and Bytes bound the messages; the first may weigh more.
	Max, Bytes int
	// Lease is how long the messages are leased; 0 leaves it to each message, its topic and DefaultLease.
	Lease    time.Duration
	Consumer string
	// Wait is how long to wait if nothing is ready.
	Wait time.Duration
	// Webhook: the poll is a webhook's. Of its topics nobody else may pull.
	Webhook bool
	// Room, which may be nil, counts bytes that the poll holds, and returns how many more it may hold. A poll that finds
	// none left gets nothing (ErrNoRoom).
	Room func(bytes int) (left int)
	// Attempt names a poll that may be sent again, within attemptKeep: the next sending gets the same messages, at any
	// instance, for as long as they are leased, and an earlier one gets nothing more. What a poll took whose client goes
	// is given back, unless a later sending knows of it. 0 is none.
	Attempt Nonce
	// Sending is the number of this sending of the attempt, from 1. A client that asks again says a higher one than
	// before: an instance may read the first sending after its repeat.
	Sending int

	// Stays: a poll for no messages waits for what comes later, too.
	Stays bool
}

// Names returns the topics of a poll.
func (p *Poll) Names() []string {
	if len(p.Topics) > 0 {
		return p.Topics
	}
	return []string{p.Topic}
}

// PulledMessage is a leased message with what settles its lease.
type PulledMessage struct {
	LeasedMessage
	Nonce Nonce
}

// DefaultLease applies if neither the poll, nor the message, nor its topic says how long a lease is.
const DefaultLease = 30 * time.Second

// Receipt is what a consumer gets with a leased message, and what settles the lease.
type Receipt struct {
	UID   message.UID
	Nonce Nonce
	Topic string
}

// Settlement is a consumer's word about a lease.
type Settlement struct {
	Verb Verb
	Receipt
	// Delay replaces the delay of the next retry of a Nack.
	Delay *time.Duration
	// Lease is how long an Extend or an Until holds the message from now.
	Lease time.Duration
	// Reason is in words for people; of an Ack, a Nack or a Bury. Of a Nack it says how the message came back; the
	// default is "sent back".
	Reason string
	// Said is what a consumer says of why it sends the message back.
	Said string
}

// ByConsumer returns the reason of a change that a consumer's lease led to: as much as stores keep, 249 bytes.
func ByConsumer(consumer, reason string) string {
	switch {
	case consumer == "":
	case reason == "":
		reason = "consumer " + consumer
	default:
		reason = "consumer " + consumer + ": " + reason
	}
	return reason[:min(len(reason), 249)]
}
