package ops

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/tarry-mq/tarry/bridge/wire"
	"github.com/tarry-mq/tarry/scheduler"
)

// Polling is what a pull says beside its topics.
type Polling struct {
	Max      *int          `json:"max"` // nil is 1
	Wait     time.Duration `json:"wait"`
	Lease    time.Duration `json:"lease"`     // 0: the message's, else the topic's, else 30 s
	Consumer string        `json:"consumer"`  // for people
	MaxBytes *int          `json:"max_bytes"` // nil is PullBytes
	Attempt  string        `json:"attempt"`   // a token: a repeat of the poll with the same one gets the same messages
	Sending  int           `json:"sending"`   // the number of this sending of the attempt, from 1
}

// Pull asks for ready messages of a topic.
type Pull struct {
	OneTopic
	Polling
}

// PullAny asks for ready messages of several topics.
type PullAny struct {
	Topics []string `json:"topics"`
	Polling
}

func (in *Polling) check() error {
	switch {
	case in.Sending > 0 && in.Attempt == "":
		return wire.Invalid(FieldSending, "needs "+FieldToken)
	case in.Sending == 0 && in.Attempt != "":
		return wire.Invalid(FieldSending, fmt.Sprintf("is missing; want 1, and in the repeats of an %s 2 to %d", FieldToken,
			MaxSendings))
	}
	return nil
}

func (in *PullAny) check() error {
	if len(in.Topics) == 0 {
		return wire.Invalid(FieldTopics, fmt.Sprintf("are missing; want 1 to %d", MaxTopics))
	}
	return in.Polling.check()
}

// pull returns the poll of a topic. Only the door knows whether its answer arrives, so the door waits and answers.
func (o *Ops) pull(ctx context.Context, by *Caller, in *Pull) (*scheduler.Poll, error) {
	poll := in.poll(ctx, in.Topic)
	poll.Topic = in.Topic
	return poll, by.MayPull(in.Topic)
}

// pullAny is pull for several topics.
func (o *Ops) pullAny(ctx context.Context, by *Caller, in *PullAny) (*scheduler.Poll, error) {
	for _, topic := range in.Topics {
		if err := by.MayPull(topic); err != nil {
			return nil, err
		}
	}
	poll := in.poll(ctx, strings.Join(slices.Sorted(slices.Values(in.Topics)), " ")) // no topic has a blank
	poll.Topics = in.Topics
	return poll, nil
}

func (in *Polling) poll(ctx context.Context, topics string) *scheduler.Poll {
	poll := &scheduler.Poll{Max: 1, Bytes: PullBytes, Lease: in.Lease, Consumer: in.Consumer, Wait: in.Wait}
	if in.Max != nil {
		poll.Max = *in.Max
	}
	if in.MaxBytes != nil {
		poll.Bytes = *in.MaxBytes
	}
	if in.Attempt != "" {
		poll.Attempt = AttemptNonce(scheduler.Caller(ctx), topics, in.Attempt)
		poll.Sending = in.Sending
	}
	return poll
}

// AttemptNonce returns the nonce of a poll that its client may repeat. To ask for it takes the token and the caller's
// name.
func AttemptNonce(caller, topics, token string) scheduler.Nonce {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %q", caller, topics, token))
	return max(scheduler.Nonce(binary.BigEndian.Uint64(sum[:])), 1)
}

// ParseWait reads how long a poll waits, in the same form as a delay: at most MaxWait.
func ParseWait(s string) (time.Duration, error) {
	d, err := wire.ParseSpan(s, FieldWait)
	if err == nil && d > MaxWait {
		return 0, wire.Invalid(FieldWait, wire.Quote(s)+" is too long, the limit is 60s")
	}
	return d, err
}

// checkWord reads a word of the consumer's own.
func checkWord(field, s string) (string, error) {
	problem := ""
	switch {
	case len(s) > MaxConsumer:
		problem = fmt.Sprintf("has %d bytes, the limit is %d", len(s), MaxConsumer)
	case !utf8.ValidString(s):
		problem = wire.Quote(s) + " is not valid UTF-8"
	case strings.IndexFunc(s, unicode.IsControl) >= 0:
		problem = wire.Quote(s) + " contains a control character"
	default:
		return s, nil
	}
	return "", wire.Invalid(field, problem)
}

// The verbs that settle a lease, as the routes name them.
const (
	VerbAck     = "ack"
	VerbNack    = "nack"
	VerbDead    = "dead"
	VerbExtend  = "extend"
	VerbRelease = "release"
)

// Verbs returns the verbs that settle a lease.
func Verbs() []string { return []string{VerbAck, VerbNack, VerbDead, VerbExtend, VerbRelease} }

// Settlement settles the lease of one receipt, or of many. Each verb takes some of the fields.
type Settlement struct {
	Receipt  string         `json:"receipt"`
	Receipts []string       `json:"receipts"`
	Delay    *time.Duration `json:"delay"`
	Reason   string         `json:"reason"`
	Lease    time.Duration  `json:"lease"`
}

// settling returns the operations that settle leases, of one receipt or of many for each verb.
func (o *Ops) settling() (all []*Operation) {
	for _, verb := range Verbs() {
		takes := map[string][]string{VerbNack: {wire.FieldDelay, fieldDelayMS, wire.FieldReason},
			VerbDead: {wire.FieldReason}, VerbExtend: {wire.FieldLease}}[verb]
		all = append(all,
			op("", "", "POST /v1/leases/{receipt}/"+verb, RightPull, verb,
				func(ctx context.Context, by *Caller, in *Settlement) (any, error) { return o.settle(ctx, by, verb, in) },
			).only(append(takes, FieldReceipt)...),
			op("", "", "POST /v1/leases/"+verb, RightPull, verb,
				func(ctx context.Context, by *Caller, in *Settlement) (any, error) {
					return o.settleMany(ctx, by, verb, in)
				},
			).only(append(takes, FieldReceipts)...))
	}
	return all
}

func (in *Settlement) checkVerb(verb string) error {
	if verb == VerbExtend && in.Lease == 0 {
		return wire.Invalid(wire.FieldLease, "is missing; it says how long to hold the message from now")
	}
	return nil
}

// settle settles the lease of one receipt.
func (o *Ops) settle(ctx context.Context, by *Caller, verb string, in *Settlement) (any, error) {
	if err := in.checkVerb(verb); err != nil {
		return nil, err
	}
	in.Receipts = []string{in.Receipt}
	done := o.settled(ctx, by, verb, in)
	refused, _ := done[0].(*Problem)
	return orRefused(&done[0], refused)
}

// settleMany settles the leases of many receipts, each with an outcome of its own.
func (o *Ops) settleMany(ctx context.Context, by *Caller, verb string, in *Settlement) (any, error) {
	if err := in.checkVerb(verb); err != nil {
		return nil, err
	}
	if len(in.Receipts) == 0 {
		return nil, wire.Invalid(FieldReceipts, fmt.Sprintf("are missing; want 1 to %d", MaxPull))
	}
	a := SettledMany{Results: o.settled(ctx, by, verb, in)}
	for _, one := range a.Results {
		if _, refused := one.(*Problem); refused {
			a.Failed++
		}
	}
	return a, nil
}

// settled settles leases, and returns a Settled or a *Problem for each receipt.
func (o *Ops) settled(ctx context.Context, by *Caller, verb string, in *Settlement) []any {
	var (
		done   = make([]any, len(in.Receipts))
		orders []scheduler.Settlement
		places []int // of orders among the receipts
	)
	for i, text := range in.Receipts {
		receipt, err := ParseReceipt(text)
		if err == nil {
			err = by.MayPull(receipt.Topic)
		}
		if err != nil {
			done[i] = o.Judge(by, err)
			continue
		}
		orders, places = append(orders, SettlementOf(verb, receipt, in)), append(places, i)
	}
	results, errs := o.Service.Settle(ctx, orders)
	for at, i := range places {
		if errs[at] != nil {
			done[i] = o.Judge(by, errs[at])
			continue
		}
		a, refused := SettledOf(string(orders[at].UID), &results[at])
		if done[i] = a; refused != nil {
			done[i] = refused
		}
	}
	return done
}

// LeaseList asks for the leased messages of a topic.
type LeaseList struct {
	OneTopic
	Page
}

// leases lists the leased messages of a topic, by the end of their leases, without headers and bodies.
func (o *Ops) leases(ctx context.Context, _ *Caller, in *LeaseList) (*MessageList, error) {
	after, err := in.open(listLeases, in.Topic)
	if err != nil {
		return nil, err
	}
	all, next, err := o.Service.LeasesOf(ctx, in.Topic, after, in.limit())
	a := &MessageList{Messages: []Info{}, Cursor: seal(listLeases, in.Topic, next)}
	for i := range all {
		all[i].Message.Held = &all[i].Holding
		a.Messages = append(a.Messages, InfoOf(&all[i].Message))
	}
	return a, err
}

// Pulled is a message as its consumer gets it.
type Pulled struct {
	ID         string // the producer's id, else the uid
	Receipt    Receipt
	Key        string
	Headers    []wire.Header // by name
	Body       []byte
	Priority   uint8
	Due        int64 // unix milliseconds
	Attempt    uint32
	LeaseUntil int64
	LeaseMS    int64 // from the answer on
}

// AppendPulled appends {"messages":[...]} to b. It avoids reflection because a pull has up to a thousand messages.
func AppendPulled(b []byte, messages []Pulled) []byte {
	return append(appendList(append(b, `{"messages":`...), messages, appendPulled), '}')
}

// AppendPosted appends messages to b as a webhook posts them: [...], each as in a pull, without what settles it.
func AppendPosted(b []byte, messages []Pulled) []byte {
	return appendList(b, messages, func(b []byte, m *Pulled) []byte { return append(appendContent(b, m), '}') })
}

// appendList appends a list, and each element by one.
func appendList[T any](b []byte, all []T, one func([]byte, *T) []byte) []byte {
	b = append(b, '[')
	for i := range all {
		if i > 0 {
			b = append(b, ',')
		}
		b = one(b, &all[i])
	}
	return append(b, ']')
}

func appendPulled(b []byte, m *Pulled) []byte {
	b = appendReceipt(append(appendContent(b, m), `,"receipt":"`...), &m.Receipt)
	b = appendTime(append(b, `","lease_until":"`...), m.LeaseUntil)
	b = strconv.AppendInt(append(b, `","lease_ms":`...), m.LeaseMS, 10)
	return append(b, '}')
}

// appendContent appends what a message says, without the last brace.
func appendContent(b []byte, m *Pulled) []byte {
	b = appendString(append(b, `{"id":`...), m.ID)
	b = appendString(append(b, `,"uid":`...), m.Receipt.UID)
	b = appendString(append(b, `,"topic":`...), m.Receipt.Topic)
	if m.Key != "" {
		b = appendString(append(b, `,"key":`...), m.Key)
	}
	if utf8.Valid(m.Body) {
		b = appendString(append(b, `,"body":`...), string(m.Body))
	} else {
		b = base64.StdEncoding.AppendEncode(append(b, `,"body_base64":"`...), m.Body)
		b = append(b, '"')
	}
	for i, h := range m.Headers {
		switch {
		case i == 0:
			b = append(appendString(append(b, `,"headers":{`...), h.Name), ":["...)
		case h.Name == m.Headers[i-1].Name:
			b = append(b, ',')
		default:
			b = append(appendString(append(b, `],`...), h.Name), ":["...)
		}
		b = appendString(b, h.Value)
	}
	if len(m.Headers) > 0 {
		b = append(b, "]}"...)
	}
	if m.Priority > 0 {
		b = strconv.AppendUint(append(b, `,"priority":`...), uint64(m.Priority), 10)
	}
	b = appendTime(append(b, `,"due":"`...), m.Due)
	return strconv.AppendUint(append(b, `","attempt":`...), uint64(m.Attempt), 10)
}

// Settled is the answer to the settlement of a lease: the message as it is now.
type Settled struct {
	UID     string `json:"uid"`
	State   string `json:"state"`
	Version uint64 `json:"version"`
	// Duplicate: it had been settled so before.
	Duplicate bool `json:"duplicate,omitempty"`
	// Due is when a message that went back is ready again, and LeaseUntil the end of an extended lease.
	Due        string `json:"due,omitempty"`
	LeaseUntil string `json:"lease_until,omitempty"`
}

// SettledMany is the answer to the settlement of many leases: for each, in order, a Settled or a Problem.
type SettledMany struct {
	Failed  int   `json:"failed"`
	Results []any `json:"results"`
}

// Receipt is what a consumer gets with a message that it pulled, and what settles its lease: the uid without its "t-",
// the nonce of the pull in 16 hex digits, and the topic in base64url. The nonce cannot be guessed.
type Receipt struct {
	UID   string
	Nonce uint64
	Topic string
}

const (
	uidMark   = "t-"
	uidDigits = 16
	hexDigits = 16
)

// String returns the receipt's text.
func (r Receipt) String() string { return string(appendReceipt(nil, &r)) }

func appendReceipt(b []byte, r *Receipt) []byte {
	b = append(b, strings.TrimPrefix(r.UID, uidMark)...)
	for shift := 60; shift >= 0; shift -= 4 {
		b = append(b, "0123456789abcdef"[r.Nonce>>shift&15])
	}
	return base64.RawURLEncoding.AppendEncode(b, []byte(r.Topic))
}

// ParseReceipt reads a receipt. It accepts only the text that String returns.
func ParseReceipt(s string) (Receipt, error) {
	if r, ok := parseReceipt(s); ok {
		return r, nil
	}
	return Receipt{}, &wire.Error{Word: WordReceipt, Field: FieldReceipt,
		Detail: wire.Quote(s) + " is not a receipt of a pull"}
}

func parseReceipt(s string) (r Receipt, ok bool) {
	if len(s) <= uidDigits+hexDigits {
		return r, false
	}
	uid, nonce, rest := uidMark+s[:uidDigits], s[uidDigits:uidDigits+hexDigits], s[uidDigits+hexDigits:]
	number, err := strconv.ParseUint(nonce, 16, 64)
	if err != nil || number == 0 || wire.CheckUID(uid) != nil {
		return r, false
	}
	topic, err := base64.RawURLEncoding.DecodeString(rest)
	r = Receipt{UID: uid, Nonce: number, Topic: string(topic)}
	return r, err == nil && wire.CheckSubject(r.Topic) == nil && r.String() == s
}
