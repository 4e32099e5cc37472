package ops

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

// Answer is the answer to a stored push: status 201, or 200 with Duplicate when the same push had been stored before,
// or with Merged.
type Answer struct {
	ID        string // the producer's id, else the uid
	UID       string
	Due       int64 // unix milliseconds
	State     string
	Version   uint64
	Durable   string // "redis" or "journal"
	Duplicate bool
	Merged    bool // it was merged into a waiting message
	// NameUnchecked reports that the push was stored although the journal did not answer whether its name had been used
	// before.
	NameUnchecked bool
}

// The durability that the answer to a push promises.
const (
	// DurableRedis means that the message is in Redis, with Redis's own durability.
	DurableRedis = "redis"
	// DurableJournal means that the journal has committed the message, which survives the loss of Redis.
	DurableJournal = "journal"
	// DurableMemory means that nothing keeps the message when the process ends.
	DurableMemory = "memory"
)

// Problem is every answer other than a success: a status as in HTTP, a stable word and a sentence. After an unknown
// outcome it carries the id under which the push can safely be repeated; after a conflict it names the conflicting
// message.
type Problem struct {
	Status int    `json:"-"`
	Word   string `json:"error"`
	Detail string `json:"detail"`
	ID     string `json:"id,omitempty"`
	UID    string `json:"uid,omitempty"`
	State  string `json:"state,omitempty"`
	Due    string `json:"due,omitempty"`
	// At is when the conflicting message ended.
	At string `json:"at,omitempty"`
	// Version is the message's version, if the request expected another one.
	Version uint64 `json:"version,omitempty"`
	// Bucket is the bucket that does not answer, while others do.
	Bucket *int `json:"bucket,omitempty"`
	// Intake is IntakeUnknown, or empty.
	Intake string `json:"intake,omitempty"`
	// Buried: a push of an unknown id that stands in the intake by now will be accepted as canceled.
	Buried bool `json:"buried,omitempty"`
	// Report is what an operation on many messages had done before it failed.
	Report *Report `json:"report,omitempty"`
	// Candidates are the messages that an ambiguous id may refer to, as far as the caller may see them.
	Candidates []Candidate `json:"candidates,omitempty"`
}

// Candidate is a message that an ambiguous id may refer to.
type Candidate struct {
	Topic string `json:"topic"`
	Key   string `json:"key"`
	UID   string `json:"uid"`
	State string `json:"state"`
}

// Canceled is the answer to a cancel: this delivery will not happen. Attempt is its number; above 1, earlier attempts
// were delivered.
type Canceled struct {
	ID      string `json:"id"`
	UID     string `json:"uid"`
	State   string `json:"state"`
	Topic   string `json:"topic,omitempty"`
	Due     string `json:"due,omitempty"`
	At      string `json:"at,omitempty"`
	Version uint64 `json:"version,omitempty"`
	Attempt uint32 `json:"attempt,omitempty"`
	Intake  string `json:"intake,omitempty"`
}

// IntakeUnknown is Intake's value in an answer about a message that has ended, if the intake may hold a later push of
// its name.
const IntakeUnknown = "unknown"

// Rescheduled is the answer to a change of a waiting message: the message after the change.
type Rescheduled struct {
	ID       string `json:"id"`
	UID      string `json:"uid"`
	State    string `json:"state"`
	Due      string `json:"due"`
	Version  uint64 `json:"version"`
	Priority uint8  `json:"priority"`
	Topic    string `json:"topic"`
	Durable  string `json:"durable,omitempty"` // DurableRedis if the journal refused the content
}

// Report is the answer to an operation on many messages: what it did, or in a dry run would do. Matches not counted
// here were not attempted because the operation stopped early.
type Report struct {
	DryRun bool `json:"dry_run,omitempty"`
	scheduler.Report
	// Intake is IntakeUnknown if the intake may hold pushes that were not looked at, or empty.
	Intake string `json:"intake,omitempty"`
}

// Info is the answer to a look-up. A text body is in Body, any other in BodyBase64; both are absent if the message's
// body is no longer kept.
type Info struct {
	ID         string              `json:"id"`
	UID        string              `json:"uid"`
	Key        string              `json:"key,omitempty"`
	Topic      string              `json:"topic"`
	State      string              `json:"state"`
	Version    uint64              `json:"version"`
	Due        string              `json:"due"`
	Priority   uint8               `json:"priority,omitempty"`
	TTL        string              `json:"ttl,omitempty"`
	Attempt    uint32              `json:"attempt,omitempty"`
	Retry      string              `json:"retry,omitempty"`
	Uncertain  bool                `json:"uncertain,omitempty"`
	Refusals   uint32              `json:"refusals,omitempty"`
	Parked     string              `json:"parked,omitempty"`
	Why        message.Why         `json:"why,omitzero"`
	LastTry    *Try                `json:"last_try,omitempty"` // of a message that consumers had in vain
	EndedAt    string              `json:"ended_at,omitempty"`
	Kind       string              `json:"kind,omitempty"`
	Other      string              `json:"other,omitempty"`
	Reason     string              `json:"reason,omitempty"`
	By         string              `json:"by,omitempty"`      // who made the last change; in lists
	Deliver    string              `json:"deliver,omitempty"` // PullWord, or empty for NATS
	Consumer   string              `json:"consumer,omitempty"`
	LeasedAt   string              `json:"leased_at,omitempty"`
	LeaseUntil string              `json:"lease_until,omitempty"`
	Intake     string              `json:"intake,omitempty"`
	Durable    string              `json:"durable,omitempty"` // DurableRedis if the journal could not record it
	Headers    map[string][]string `json:"headers,omitempty"`
	Body       *string             `json:"body,omitempty"`
	BodyBase64 []byte              `json:"body_base64,omitempty"`
	// BodyOmitted reports that the message has a body that is too large for this answer.
	BodyOmitted bool `json:"body_omitted,omitempty"`
}

// Try says when a try ended in vain, whose it was if that is known, and what came of it.
type Try struct {
	At      string `json:"at"`
	By      string `json:"by,omitempty"`
	Outcome string `json:"outcome,omitempty"`
}

// SetBody stores a body in the field that preserves all its bytes.
func (i *Info) SetBody(body []byte) {
	if utf8.Valid(body) {
		text := string(body)
		i.Body = &text
		return
	}
	i.BodyBase64 = body
}

// FormatTime writes unix milliseconds as RFC 3339 in UTC with milliseconds, as all answers do; 0 means no time and
// gives "".
func FormatTime(ms int64) string {
	if ms == 0 {
		return ""
	}
	return string(appendTime(make([]byte, 0, len("2006-01-02T15:04:05.000Z")), ms))
}

// appendTime writes the whole seconds in the form for which the time package has a fast path.
func appendTime(b []byte, ms int64) []byte {
	t := time.UnixMilli(ms).UTC()
	b = t.AppendFormat(b, time.RFC3339)
	fraction := t.Nanosecond() / int(time.Millisecond)
	return append(b[:len(b)-1], '.', byte('0'+fraction/100), byte('0'+fraction/10%10), byte('0'+fraction%10), 'Z')
}

// AppendAnswer appends a's JSON to b. It avoids reflection because pushes arrive in batches of a thousand.
func AppendAnswer(b []byte, a *Answer) []byte {
	b = appendString(append(b, `{"id":`...), a.ID)
	b = appendString(append(b, `,"uid":`...), a.UID)
	b = appendTime(append(b, `,"due":"`...), a.Due)
	b = appendString(append(b, `","state":`...), a.State)
	b = strconv.AppendUint(append(b, `,"version":`...), a.Version, 10)
	b = appendString(append(b, `,"durable":`...), a.Durable)
	if a.Duplicate {
		b = append(b, `,"duplicate":true`...)
	}
	if a.Merged {
		b = append(b, `,"merged":true`...)
	}
	if a.NameUnchecked {
		b = append(b, `,"name_checked":false`...)
	}
	return append(b, '}')
}

// AppendProblem appends p's JSON to b.
func AppendProblem(b []byte, p *Problem) []byte {
	text, err := json.Marshal(p)
	if err != nil { // strings and nothing else
		return append(b, `{"error":"internal","detail":"the answer cannot be written"}`...)
	}
	return append(b, text...)
}

// Result is the outcome of one push in the answer to a batch: either an answer or a problem.
type Result struct {
	Answer  Answer
	Problem *Problem
}

// AppendResults appends {"failed":n,"results":[...]} with an answer or a problem for each push, in order, and how many
// are problems.
func AppendResults(b []byte, results []Result) []byte {
	failed := int64(0)
	for i := range results {
		if results[i].Problem != nil {
			failed++
		}
	}
	b = strconv.AppendInt(append(b, `{"failed":`...), failed, 10)
	return append(appendList(append(b, `,"results":`...), results, func(b []byte, r *Result) []byte {
		if r.Problem != nil {
			return AppendProblem(b, r.Problem)
		}
		return AppendAnswer(b, &r.Answer)
	}), '}')
}

// appendString writes a JSON string, plain ASCII by a fast path.
func appendString(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			text, err := json.Marshal(s)
			if err != nil {
				return append(b, `""`...)
			}
			return append(b, text...)
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}

// Rejected is a push by tag that NATS acknowledged and tarry refused.
type Rejected struct {
	Sequence uint64        `json:"sequence"` // in the stream of rejects
	At       message.Milli `json:"at"`
	Topic    string        `json:"topic"`
	ID       string        `json:"id,omitempty"`
	Key      string        `json:"key,omitempty"`
	Word     string        `json:"reason"` // the word of the problem
	Detail   string        `json:"detail"`
	Size     int           `json:"size"` // of the body
	// Incomplete reports that a part of the original message is missing, so that it cannot be pushed again.
	Incomplete bool                `json:"incomplete,omitempty"`
	Headers    map[string][]string `json:"headers,omitempty"` // as sent; not in lists, and neither is the body
	Body       *string             `json:"body,omitempty"`
	BodyBase64 []byte              `json:"body_base64,omitempty"`
}

// SetBody stores a body in the field that preserves all its bytes.
func (r *Rejected) SetBody(body []byte) {
	if utf8.Valid(body) {
		text := string(body)
		r.Body = &text
		return
	}
	r.BodyBase64 = body
}

// Encode returns v as JSON, for answers that are not on the path of every message. It does not escape HTML characters,
// so that patterns like orders.> stay readable.
func Encode(v any) ([]byte, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		return nil, fmt.Errorf("encode the answer: %w", err)
	}
	return bytes.TrimSuffix(text.Bytes(), []byte("\n")), nil
}
