package site

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/tarry-mq/tarry/deploy/check/history"
)

// eventsLocked is the history in the form that deploy/check reads.
func (h *History) eventsLocked() (all []history.Event) {
	calls := 0
	call := func(begun, ended history.Event) {
		calls++
		begun.Phase, begun.Call = history.Invoke, calls
		all = append(all, begun)
		if ended.Phase != "" {
			ended.Kind, ended.Message, ended.Call = begun.Kind, begun.Message, calls
			all = append(all, ended)
		}
	}
	for seq, s := range h.Sent {
		message, answer := strconv.Itoa(seq), history.Event{}
		if s.Kept {
			answer = history.Event{At: s.KeptAt, Phase: history.OK, UID: s.Uid}
			if s.Uid == "" {
				answer.Word = history.Taken // by tag
			}
			if s.Due != 0 {
				answer.Due = time.UnixMilli(s.Due)
			}
		}
		call(history.Event{At: s.pushed, Kind: history.Push, Message: message, Body: string(s.Body), Due: s.NotBefore},
			answer)
		if h.diedWithNATSLocked(s) {
			all = append(all, history.Event{Kind: history.End, Message: message, Word: "gone with its nats-server"})
		}
	}
	for _, c := range h.canceled {
		answer := history.Event{At: c.At, Phase: history.Unknown, Word: c.Word}
		switch {
		case c.Word == OkCancel:
			answer.Phase = history.OK
		case c.Word == "in_flight", strings.HasPrefix(c.Word, "already_"), c.Word == "unavailable",
			(c.Word == "unknown_id" || c.Word == "in_intake") && !h.Lossy:
			answer.Phase = history.Fail
		}
		call(history.Event{At: c.Begun, Kind: history.Cancel, Message: strconv.Itoa(c.Seq)}, answer)
	}
	for _, a := range h.deliveriesLocked() {
		uid, _, _ := strings.Cut(a.header.Get(nats.MsgIdHdr), "@")
		attempt, _ := strconv.Atoi(a.header.Get("Tarry-Attempt"))
		all = append(all, history.Event{At: a.At, Kind: history.Deliver, By: a.Subject, Message: strconv.Itoa(a.Seq),
			UID: uid, Attempt: attempt, Body: string(a.Body)})
	}
	fault := func(w Window, word string) {
		over := history.Event{}
		if !w.to.IsZero() {
			over = history.Event{At: w.to, Phase: history.OK}
		}
		call(history.Event{At: w.From, Kind: history.Fault, By: w.Why, Word: word}, over)
	}
	for _, w := range h.windows {
		fault(w, history.Repeats)
		if w.Lost {
			fault(w, history.Loss)
		}
	}
	if h.Lossy {
		fault(Window{Why: "what was acknowledged may be lost"}, history.Loss)
	}
	for _, l := range h.Leaders {
		all = append(all, history.Event{At: l.at, Kind: history.Lead, By: l.instance, Term: l.term})
	}
	return all
}

// deliveriesLocked are the arrivals but for those of one stored message after its first, which are between its consumer
// and NATS.
func (h *History) deliveriesLocked() []Arrival {
	type place struct {
		seq    int
		stored uint64
	}
	came := map[place]bool{}
	return slices.DeleteFunc(slices.Clone(h.Arrivals), func(a Arrival) bool {
		again := a.Stored > 0 && came[place{a.Seq, a.Stored}]
		came[place{a.Seq, a.Stored}] = true
		return again
	})
}
