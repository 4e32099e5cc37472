package history

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"
)

// Event is one line of a history; see the package's documentation.
type Event struct {
	At      time.Time `json:"at"`
	Kind    string    `json:"kind"`
	Phase   string    `json:"phase,omitempty"`
	Call    int       `json:"call,omitempty"`
	By      string    `json:"by,omitempty"`
	Message string    `json:"message,omitempty"`
	Dead    string    `json:"dead,omitempty"`
	Key     string    `json:"key,omitempty"`
	UID     string    `json:"uid,omitempty"`
	Attempt int       `json:"attempt,omitempty"`
	Due     time.Time `json:"due,omitzero"`
	TTL     string    `json:"ttl,omitempty"`
	Body    string    `json:"body,omitempty"`
	Word    string    `json:"word,omitempty"`
	Receipt string    `json:"receipt,omitempty"`
	Until   time.Time `json:"until,omitzero"`
	Term    uint64    `json:"term,omitempty"`
}

// Kinds of events.
const (
	Push       = "push"
	Cancel     = "cancel"
	Reschedule = "reschedule"
	Deliver    = "deliver"
	Lease      = "lease"
	Settle     = "settle"
	Look       = "look"
	Lead       = "lead"
	Fault      = "fault"
	End        = "end"
)

// Phases of calls and faults.
const (
	Invoke  = "invoke"
	OK      = "ok"
	Fail    = "fail"
	Unknown = "unknown"
)

// Words of a delivery by a webhook, which posts a message again unless it heard that the target has it.
const (
	Posted   = "posted"
	Accepted = "accepted"
)

// Taken is the word of a push whose answer says that NATS has it, so that tarry takes it some time later.
const Taken = "taken"

// Words of faults.
const (
	Repeats = "repeats"
	Leases  = "leases"
	Loss    = "loss"
)

// Words of settlements.
const (
	ack     = "ack"
	nack    = "nack"
	dead    = "dead"
	release = "release"
	extend  = "extend"
)

// Read reads a history. An unknown field, kind, phase, or word of a settlement or a fault is an error: a rule must not
// overlook what it cannot read.
func Read(r io.Reader) ([]Event, error) {
	var all []Event
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 128<<20)
	for n := 1; lines.Scan(); n++ {
		if len(lines.Bytes()) == 0 {
			continue
		}
		e, err := readEvent(lines.Bytes())
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		all = append(all, e)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read the history: %w", err)
	}
	return all, nil
}

func readEvent(line []byte) (e Event, err error) {
	in := json.NewDecoder(bytes.NewReader(line))
	in.DisallowUnknownFields()
	if err := in.Decode(&e); err != nil {
		return e, err
	}
	calls := []string{Push, Cancel, Reschedule, Settle, Look, Fault}
	switch known := append(calls, Deliver, Lease, Lead, End); {
	case !slices.Contains(known, e.Kind):
		return e, fmt.Errorf("the kind is %q, want one of %v", e.Kind, known)
	case e.At.IsZero():
		return e, fmt.Errorf("a %s without at", e.Kind)
	case slices.Contains(calls, e.Kind) != slices.Contains([]string{Invoke, OK, Fail, Unknown}, e.Phase):
		return e, fmt.Errorf("the phase of a %s is %q", e.Kind, e.Phase)
	}
	words := map[string][]string{Settle: {ack, nack, dead, release, extend}, Fault: {Repeats, Leases, Loss}}[e.Kind]
	if e.Phase == Invoke && words != nil && !slices.Contains(words, e.Word) {
		return e, fmt.Errorf("the word of a %s is %q, want one of %v", e.Kind, e.Word, words)
	}
	return e, nil
}

// Write writes a history.
func Write(w io.Writer, all []Event) error {
	out := json.NewEncoder(w)
	for i := range all {
		if err := out.Encode(&all[i]); err != nil {
			return fmt.Errorf("write event %d: %w", i+1, err)
		}
	}
	return nil
}
