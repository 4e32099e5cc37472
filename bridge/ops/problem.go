package ops

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"runtime"
	"strings"

	"github.com/tarry-mq/tarry/bridge/wire"
	"github.com/tarry-mq/tarry/scheduler"
)

// The stable words of problems that do not concern a single field of a request; wire has those. Programs compare them.
const (
	WordUnavailable    = "unavailable"
	WordBucket         = "bucket_unavailable" // of one bucket while others answer
	WordFull           = "store_full"
	WordBehind         = "journal_behind"
	WordBusy           = "busy"
	WordStopping       = "stopping"
	WordOutcomeUnknown = "outcome_unknown"
	WordDuplicateID    = "duplicate_id"
	WordUnknownID      = "unknown_id"
	WordInIntake       = "in_intake"
	WordRejected       = "rejected"
	WordAmbiguousID    = "ambiguous_id"
	WordTooFar         = "too_far"
	WordStaleUID       = "stale_uid"
	WordMaybeDelivered = "maybe_delivered"
	WordVersion        = "version_mismatch"
	WordNotDead        = "not_dead"
	WordTooManyPauses  = "too_many_pauses"
	WordBadCursor      = "bad_cursor"
	WordInternal       = "internal"
	WordForbidden      = "forbidden"
	WordNeedsJournal   = "needs_journal"
	WordAlreadyRunning = "already_running"
	WordNotPaused      = "not_paused"    // of a resume
	WordNotLeased      = "not_leased"    // of a release of a message that no consumer holds
	WordNotJournaled   = "not_journaled" // of a settlement that took effect, and for which answers wait
	WordLeaseLost      = "lease_lost"    // of a receipt whose lease no longer holds, or never did

	WordUnknownReject    = "unknown_reject"
	WordIncompleteReject = "incomplete_reject"
	WordNeedsJetStream   = "needs_jetstream"

	WordWebhook = "webhook_topic"

	WordNoLeader  = "no_leader"
	WordNotLeader = "not_leader"
	WordNotGone   = "not_gone"
	WordNoStandby = "no_standby"
)

// The errors of an election that cannot do what was requested.
var (
	// ErrNoLeader reports that no instance leads at the moment.
	ErrNoLeader = errors.New("no instance leads")
	// ErrNotGone reports that no instance of a name is gone: it is registered, or was never known.
	ErrNotGone = errors.New("no instance of this name is gone")
	// ErrNotLeader reports that another instance leads.
	ErrNotLeader = errors.New("this instance does not lead")
	// ErrNoStandby reports that no other instance could take over.
	ErrNoStandby = errors.New("no other instance could take over")
	// ErrUnreachable reports that the election's coordinator does not answer.
	ErrUnreachable = errors.New(
		"ZooKeeper does not answer this instance, so it does not know who leads and who stands by; " +
			"it takes pushes and changes all the same, and what is due leaves as soon as a leader reaches ZooKeeper")
)

var problems = []struct {
	err    error
	status int
	word   string
}{
	// This one is first: a change that may have happened must never be reported as one that did not.
	{scheduler.ErrOutcomeUnknown, http.StatusGatewayTimeout, WordOutcomeUnknown},
	{scheduler.ErrInIntake, http.StatusAccepted, WordInIntake},
	{scheduler.ErrUnknownID, http.StatusNotFound, WordUnknownID},
	{scheduler.ErrRejected, http.StatusNotFound, WordRejected},
	{scheduler.ErrDuplicateID, http.StatusConflict, WordDuplicateID},
	{scheduler.ErrAmbiguousID, http.StatusConflict, WordAmbiguousID},
	{scheduler.ErrStaleUID, http.StatusConflict, WordStaleUID},
	{scheduler.ErrForeignUID, http.StatusBadRequest, wire.WordID},
	{ErrUnknownReject, http.StatusNotFound, WordUnknownReject},
	{ErrIncompleteReject, http.StatusConflict, WordIncompleteReject},
	{ErrNoRejects, http.StatusNotImplemented, WordNeedsJetStream},
	{scheduler.ErrMaybeDelivered, http.StatusConflict, WordMaybeDelivered},
	{scheduler.ErrNotDead, http.StatusConflict, WordNotDead},
	{scheduler.ErrTooManyPauses, http.StatusConflict, WordTooManyPauses},
	{scheduler.ErrNotLeased, http.StatusConflict, WordNotLeased},
	{scheduler.ErrWebhook, http.StatusConflict, WordWebhook},
	{scheduler.ErrDeliver, http.StatusBadRequest, wire.WordDeliver},
	{scheduler.ErrBadCursor, http.StatusBadRequest, WordBadCursor},
	{scheduler.ErrTooFar, http.StatusBadRequest, WordTooFar},
	{ErrNoLeader, http.StatusConflict, WordNoLeader},
	{ErrNotLeader, http.StatusConflict, WordNotLeader},
	{ErrNotGone, http.StatusNotFound, WordNotGone},
	{ErrNoStandby, http.StatusConflict, WordNoStandby},
	{ErrUnreachable, http.StatusServiceUnavailable, WordUnavailable},
	{scheduler.ErrUnreadable, http.StatusInternalServerError, WordInternal},
	{scheduler.ErrFull, http.StatusServiceUnavailable, WordFull},
	{scheduler.ErrBehind, http.StatusServiceUnavailable, WordBehind},
	{scheduler.ErrBusy, http.StatusServiceUnavailable, WordBusy},
	{scheduler.ErrNoRoom, http.StatusServiceUnavailable, WordBusy},
	{scheduler.ErrStopping, http.StatusServiceUnavailable, WordStopping},
	{scheduler.ErrUnavailable, http.StatusServiceUnavailable, WordUnavailable},
	{scheduler.ErrNoMachineID, http.StatusServiceUnavailable, WordUnavailable},
	{scheduler.ErrClockBack, http.StatusServiceUnavailable, WordUnavailable},
	// The caller's time-out passed, or the caller went away, while the store had the request.
	{context.DeadlineExceeded, http.StatusGatewayTimeout, WordOutcomeUnknown},
	{context.Canceled, http.StatusGatewayTimeout, WordOutcomeUnknown},
}

// ProblemOf converts an error into a problem of the API. An unknown error becomes 500 internal without any detail of
// the cause; the error itself is for the log.
func ProblemOf(err error) Problem {
	var refused *wire.Error
	if errors.As(err, &refused) {
		status := http.StatusBadRequest
		switch refused.Word {
		case wire.WordTooLarge:
			status = http.StatusRequestEntityTooLarge
		case WordReceipt:
			status = http.StatusNotFound
		}
		return Problem{Status: status, Word: refused.Word, Detail: refused.Error()}
	}
	if away := (*scheduler.BucketError)(nil); errors.As(err, &away) {
		bucket := int(away.Bucket)
		return Problem{Status: http.StatusServiceUnavailable, Word: WordBucket, Detail: away.Error(),
			Bucket: &bucket}
	}
	for _, p := range problems {
		if errors.Is(err, p.err) {
			detail := err.Error()
			switch {
			case p.word == WordUnknownID:
				detail = "no message, live or remembered, has this id"
			case p.word == WordInIntake:
				detail = "no message has this id by now; the intake may hold a push of it that nobody has handled yet"
			case p.word == WordUnknownReject, p.err == ErrUnreachable: // a hidden reject must look missing
				detail = p.err.Error()
			case p.status >= http.StatusInternalServerError:
				text := p.err.Error() + ": " // said once, however many steps have said it
				detail = strings.ReplaceAll(detail, text+text, text)
				if p.word == WordUnavailable { // a step has found that nothing was changed
					detail = strings.ReplaceAll(detail, scheduler.ErrOutcomeUnknown.Error()+": ", "")
				}
				detail = nameless(detail)
			}
			return Problem{Status: p.status, Word: p.word, Detail: detail, Candidates: candidates(err)}
		}
	}
	return Problem{Status: http.StatusInternalServerError, Word: WordInternal,
		Detail: "internal error; the log has the details"}
}

// Refused is an error that contains the problem to answer with.
type Refused struct{ Problem }

func (r *Refused) Error() string { return r.Word + ": " + r.Detail }

// Refuse returns the error for a problem.
func Refuse(status int, word, format string, args ...any) error {
	detail := format
	if len(args) > 0 {
		detail = fmt.Sprintf(format, args...)
	}
	return &Refused{Problem{Status: status, Word: word, Detail: detail}}
}

// Judge converts an error into the problem to answer with. It logs unexpected errors.
func (o *Ops) Judge(by *Caller, err error) *Problem {
	var known *Refused
	if !errors.As(err, &known) {
		known = &Refused{ProblemOf(err)}
	}
	if known.Status == http.StatusInternalServerError {
		o.Log.Error().Err(err).Str("route", by.Route).Msg("request failed")
	} else if known.Status > http.StatusInternalServerError { // the answer must not name hosts
		o.Log.Debug().Err(err).Str("route", by.Route).Msg("request could not be served")
	}
	return &known.Problem
}

// candidates returns the messages that an ambiguous id may refer to.
func candidates(err error) (list []Candidate) {
	var ambiguous *scheduler.AmbiguousError
	if !errors.As(err, &ambiguous) {
		return nil
	}
	for i := range ambiguous.Candidates {
		c := &ambiguous.Candidates[i]
		list = append(list, Candidate{Topic: c.Topic, Key: c.Key, UID: string(c.UID), State: c.State.String()})
	}
	return list
}

// An answer for callers contains neither host names nor replies of the store's scripts. The log has the complete error.
var (
	// call matches the start of an error of the net package, which names the remote host.
	call = regexp.MustCompile(`\b(?:dial|read|write) (?:tcp|udp|unix)[46]?\b.*|\blookup \S+.*`)
	// address is a host and its port.
	address = regexp.MustCompile(`\[?[0-9A-Za-z_.:-]*[0-9A-Za-z_-]\]?:[0-9]{3,5}\b`)
	// script matches the reply of a script of the store.
	script = regexp.MustCompile(` \([A-Z]{4,} [^()]*\)`)
)

// nameless returns an error's text without host names and without script replies.
func nameless(text string) string {
	text = script.ReplaceAllString(text, "")
	return address.ReplaceAllString(call.ReplaceAllString(text, "no connection"), "a server")
}

// ErrPanicked reports that the answering of a request panicked.
var ErrPanicked = errors.New("panicked")

// PanicText describes a panic. The runtime's own panics never quote data. Any other panic may, so only its type is
// logged.
func PanicText(v any) string {
	if err, ok := v.(runtime.Error); ok {
		return err.Error()
	}
	return fmt.Sprintf("%T", v)
}
