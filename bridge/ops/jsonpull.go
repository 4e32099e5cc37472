package ops

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/tarry-mq/tarry/bridge/wire"
)

// The fields of the requests of consumers that pull.
const (
	FieldMax      = "max"
	FieldWait     = "wait"
	FieldConsumer = "consumer"
	FieldMaxBytes = "max_bytes"
	FieldTopics   = "topics"
	FieldToken    = "attempt"
	FieldSending  = "sending"
	FieldReceipt  = "receipt"
	FieldReceipts = "receipts"
)

// WordReceipt answers a receipt that does not parse, with 404. What a field refuses is "invalid_" and its name.
const WordReceipt = "unknown_receipt"

// The limits of a pull.
const (
	MaxPull      = 1000 // messages of one pull, and receipts of one settlement
	MaxTopics    = 32   // of one pull
	MaxConsumer  = 64   // bytes
	MaxSendings  = 10   // of one attempt
	MaxWait      = time.Minute
	PullBytes    = 4 << 20 // max_bytes by default
	MaxPullBytes = 64 << 20
)

// Pull is a consumer's request for ready messages.
type Pull struct {
	Topics   []string // of a pull of several
	Max      int
	Wait     time.Duration
	Lease    time.Duration // 0: the message's, else the topic's, else 30 s
	Consumer string        // for people
	MaxBytes int
	Attempt  string // a token: a repeat of the poll with the same one gets the same messages
	Sending  int    // the number of this sending of the attempt, from 1
}

// DecodePull reads {"max":1, "wait":"0", "lease":"30s", "consumer":"...", "max_bytes":4194304, "attempt":"...",
// "sending":1}; all fields are optional. DecodePullAny reads {"topics":["...", ...]} too, and needs it.
func DecodePull(data []byte) (Pull, error) {
	return decode(data, "a pull", (*Pull).fields, (*Pull).check)
}

// DecodePullAny reads a pull of several topics.
func DecodePullAny(data []byte) (Pull, error) {
	all := func(p *Pull) []field {
		return append(p.fields(), field{FieldTopics, func(f *fields) {
			f.list(MaxTopics, func() {
				if topic := f.checked(wire.CheckOneTopic); slices.Contains(p.Topics, topic) {
					f.invalid("have " + wire.Quote(topic) + " twice")
				} else {
					p.Topics = append(p.Topics, topic)
				}
			})
		}})
	}
	return decode(data, "a pull", all, func(p *Pull) error {
		if len(p.Topics) == 0 {
			return wire.Invalid(FieldTopics, fmt.Sprintf("are missing; want 1 to %d", MaxTopics))
		}
		return p.check()
	})
}

func (p *Pull) fields() []field {
	p.Max, p.MaxBytes = 1, PullBytes
	return []field{
		{FieldMax, func(f *fields) { p.Max = f.whole(1, MaxPull) }},
		{FieldWait, func(f *fields) { p.Wait = parsed(f, f.span, ParseWait) }},
		{wire.FieldLease, func(f *fields) { p.Lease = parsed(f, f.span, wire.ParseLease) }},
		{FieldConsumer, func(f *fields) { p.Consumer = f.checked(checkWord(FieldConsumer)) }},
		{FieldToken, func(f *fields) { p.Attempt = f.checked(checkWord(FieldToken)) }},
		{FieldSending, func(f *fields) { p.Sending = f.whole(1, MaxSendings) }},
		{FieldMaxBytes, func(f *fields) { p.MaxBytes = f.whole(1, MaxPullBytes) }},
	}
}

func (p *Pull) check() error {
	switch {
	case p.Sending > 0 && p.Attempt == "":
		return wire.Invalid(FieldSending, "needs "+FieldToken)
	case p.Sending == 0 && p.Attempt != "":
		return wire.Invalid(FieldSending, fmt.Sprintf("is missing; want 1, and in the repeats of an %s 2 to %d", FieldToken,
			MaxSendings))
	}
	return nil
}

// ParseWait reads how long a poll waits, in the same form as a delay: at most MaxWait.
func ParseWait(s string) (time.Duration, error) {
	d, err := wire.ParseSpan(s, FieldWait)
	if err == nil && d > MaxWait {
		return 0, wire.Invalid(FieldWait, wire.Quote(s)+" is too long, the limit is 60s")
	}
	return d, err
}

// checkWord returns the check of a field that holds a word of the consumer's own.
func checkWord(field string) func(s string) error {
	return func(s string) error {
		problem := ""
		switch {
		case len(s) > MaxConsumer:
			problem = fmt.Sprintf("has %d bytes, the limit is %d", len(s), MaxConsumer)
		case !utf8.ValidString(s):
			problem = wire.Quote(s) + " is not valid UTF-8"
		case strings.IndexFunc(s, unicode.IsControl) >= 0:
			problem = wire.Quote(s) + " contains a control character"
		default:
			return nil
		}
		return wire.Invalid(field, problem)
	}
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

// Settlement is what a request says about leases beside its verb.
type Settlement struct {
	Receipts []string // of a request for many
	Delay    time.Duration
	HasDelay bool
	Reason   string
	Lease    time.Duration
}

// DecodeSettlement reads the body of a request with a verb: {"delay":"1m", "reason":"..."} of a nack, {"reason":"..."}
// of dead and {"lease":"1m"} of an extend, which needs it; and with many {"receipts":["...", ...]}.
func DecodeSettlement(data []byte, verb string, many bool) (Settlement, error) {
	all := func(s *Settlement) (list []field) {
		reason := field{wire.FieldReason, func(f *fields) {
			text, _ := f.string()
			s.Reason = wire.CleanReason(text)
		}}
		switch verb {
		case VerbNack:
			list = append(delayed(func(d time.Duration) { s.Delay, s.HasDelay = d, true }), reason)
		case VerbDead:
			list = []field{reason}
		case VerbExtend:
			list = []field{{wire.FieldLease, func(f *fields) { s.Lease = parsed(f, f.span, wire.ParseLease) }}}
		}
		if many {
			list = append(list, field{FieldReceipts, func(f *fields) {
				f.list(MaxPull, func() {
					text, _ := f.string()
					s.Receipts = append(s.Receipts, text)
				})
			}})
		}
		return list
	}
	return decode(data, verb, all, func(s *Settlement) error {
		switch {
		case verb == VerbExtend && s.Lease == 0:
			return wire.Invalid(wire.FieldLease, "is missing; it says how long to hold the message from now")
		case many && len(s.Receipts) == 0:
			return wire.Invalid(FieldReceipts, fmt.Sprintf("are missing; want 1 to %d", MaxPull))
		}
		return nil
	})
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
