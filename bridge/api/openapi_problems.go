package api

import (
	"net/http"
	"slices"
	"strings"

	"github.com/tarry-mq/tarry/bridge/answer"
	"github.com/tarry-mq/tarry/bridge/wire"
	"github.com/tarry-mq/tarry/scheduler"
)

// The words that have no constant, since they are made of the name of a state.
const (
	wordInFlight = "in_flight"
	wordAlready  = "already_"
)

// What several operations can be refused with.
var (
	// jsonWords are of every request whose body has fields.
	jsonWords = []string{wire.WordJSON, wire.WordUnknownField, wire.WordRepeatedField}
	// nameWords are of a message that a path names.
	nameWords = []string{wire.WordID, wire.WordTopic, wire.WordKey}
	pushWords = []string{wire.WordTopic, wire.WordDelay, wire.WordAt, wire.WordNoDelay, wire.WordDelayAndAt,
		wire.WordID, wire.WordKey, wire.WordOnDuplicate,
		wire.WordDeliver, wire.WordPriority, wire.WordTTL, wire.WordAttempt, wire.WordRetry, wire.WordMaxWait,
		wire.WordReason, wire.WordHeader,
		wire.WordBody, wire.WordUnsupported, answer.WordTooFar}
	whenWords   = []string{wire.WordDelay, wire.WordAt, wire.WordShift, wire.WordDelayAndAt, wire.WordNoChange}
	editWords   = concat(whenWords, []string{wire.WordPriority, wire.WordBody, wire.WordHeader, answer.WordTooFar})
	selectWords = []string{wire.WordTopic, wire.WordKey, wire.WordDueFrom, wire.WordDueTo, wire.WordAll,
		wire.WordDryRun, wire.WordSelection}
	deadWords = []string{wire.WordID, wire.WordKey, wire.WordIDs, wire.WordTopic, wire.WordFrom, wire.WordTo,
		wire.WordOlder, wire.WordAll, wire.WordDryRun,
		wire.WordSelection}

	unavailable = []string{answer.WordUnavailable}
	// writeWords: the store, or the journal behind it, takes no change now.
	writeWords = []string{answer.WordUnavailable, answer.WordFull, answer.WordBehind}
	unknown    = []string{answer.WordOutcomeUnknown}
	noMessage  = []string{answer.WordUnknownID}
	ambiguous  = []string{answer.WordAmbiguousID}
)

func concat(lists ...[]string) []string { return slices.Concat(lists...) }

// changeWords are what stands in the way of changing a message in one of these states.
func changeWords(ended ...scheduler.State) []string {
	words := []string{wordInFlight, answer.WordMaybeDelivered, answer.WordAmbiguousID}
	for _, state := range ended {
		words = append(words, wordAlready+state.String())
	}
	return words
}

// words are all problems of an operation by status: its own and those of its kind.
func (op *operation) words() map[int][]string {
	all := map[int][]string{}
	add := func(status int, words ...string) { all[status] = append(all[status], words...) }
	add(http.StatusForbidden, WordForeignHost)
	if !op.open {
		add(http.StatusUnauthorized, WordUnauthorized)
		add(http.StatusForbidden, WordForbidden)
		if !strings.HasPrefix(op.pattern, http.MethodGet) {
			add(http.StatusForbidden, WordCrossOrigin)
		}
	}
	if !op.plain {
		add(http.StatusInternalServerError, answer.WordInternal)
	}
	if !op.open && !op.plain {
		add(http.StatusBadRequest, WordQuery, WordUnknownParameter)
	}
	if op.body != "" {
		add(http.StatusBadRequest, WordIncomplete)
		add(http.StatusRequestTimeout, WordRequestTimeout)
		add(http.StatusRequestEntityTooLarge, wire.WordTooLarge)
		add(http.StatusUnsupportedMediaType, WordMediaType)
		add(http.StatusServiceUnavailable, answer.WordBusy)
	}
	for status, words := range op.problems {
		add(status, words...)
	}
	for status := range all {
		slices.Sort(all[status])
		all[status] = slices.Compact(all[status])
	}
	return all
}

func problemHeaders(status int) []string {
	switch status {
	case http.StatusServiceUnavailable:
		return []string{"Retry-After"}
	case http.StatusUnauthorized:
		return []string{"WWW-Authenticate"}
	}
	return nil
}

// problemWords are all there are: those of the operations, and those of requests that meet none.
func problemWords() []string {
	words := []string{WordUnknownRoute, WordMethod}
	for _, op := range operations() {
		for _, some := range op.words() {
			words = append(words, some...)
		}
	}
	slices.Sort(words)
	return slices.Compact(words)
}
