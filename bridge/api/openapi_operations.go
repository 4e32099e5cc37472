package api

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/tarry-mq/tarry/bridge/answer"
	"github.com/tarry-mq/tarry/bridge/wire"
	"github.com/tarry-mq/tarry/scheduler"
)

// operations is every route of /v1, health and metrics.
func operations() []operation {
	return slices.Concat(pushOperations(), messageOperations(), manyOperations(), deadOperations(), topicOperations(),
		journalOperations(), rejectOperations(), clusterOperations())
}

// ok is a 200 with a schema.
func ok(text, schema string) []told {
	return []told{{status: http.StatusOK, text: text, schema: schema}}
}

// okLong is a 200 of a long operation.
func okLong(text, schema, lines string) []told {
	return []told{{status: http.StatusOK, text: text, schema: schema, lines: lines}}
}

// pathParams describes what stands in braces.
func pathParams(path string) (params []object) {
	switch {
	case strings.Contains(path, "{id}"):
		params = append(params,
			param("path", "id", "The message: its uid, or the name its producer gave it. A text in the form of a uid "+
				"is always a uid.", ref("Name")),
			param("query", "topic", "The topic that the name belongs to. Without topic and key a look takes the one "+
				"message of the name that lives; "+
				"a change is refused as soon as messages of two topics or keys are known under it, live or ended.",
				ref("TopicName")),
			param("query", "key", "The key that the name belongs to, which may be empty.",
				object{{"type", "string"}, {"maxLength", wire.MaxKey}}))
	case strings.HasSuffix(path, "{topic}"):
		params = append(params, param("path", "topic", "One topic.", ref("TopicName")))
	case strings.Contains(path, "{topic}"):
		params = append(params, param("path", "topic", "A topic, or a pattern with NATS's wildcards. `>` is written "+
			"`%3E` where a client insists.", ref("Pattern")))
	}
	return params
}

// param describes one parameter.
func param(in, name, text string, schema object) object {
	return object{{"name", name}, {"in", in}, {"required", in == "path"}, {"description", text}, {"schema", schema}}
}

func ifMatchParam() object {
	return param("header", "If-Match",
		`The version that must stand, as an ETag gave it: "3". 3 without quotes does too; * and none at all mean any.`,
		object{{"type", "string"}, {"pattern", `^[ \t]*("[0-9]+"|[0-9]+|\*)?[ \t]*$`}, {"examples", []string{`"3"`}}})
}

func limitParam() object {
	return param("query", "limit", "How many a page holds.",
		object{{"type", "integer"}, {"minimum", 1}, {"maximum", maxList}, {"default", defaultList}})
}

func cursorParam() object {
	return param("query", "cursor",
		"Where to go on: the cursor of the answer before, with all parameters but limit as they were.",
		object{{"type", "string"}, {"minLength", 1}})
}

// long adds what an operation that runs long and alone can end with.
func longProblems(p map[int][]string) map[int][]string {
	p[http.StatusConflict] = append(p[http.StatusConflict], WordAlreadyRunning)
	p[http.StatusServiceUnavailable] = append(slices.Clone(p[http.StatusServiceUnavailable]), answer.WordStopping)
	p[http.StatusGatewayTimeout] = unknown
	return p
}

func pushOperations() []operation {
	return []operation{
		{
			pattern: "POST /v1/messages", id: "pushMessage", tag: "messages", needs: rightPush,
			summary: "Keep one message until it is due",
			text: "Once it is answered 201 or 200 the message is delivered at least once, never early, or ends where " +
				"it can be seen. " +
				"A push with an `id` may be repeated: the same content is answered 200 with `duplicate`. " +
				"Where that is the uid of an unknown outcome, content is not compared: on the topic of its message " +
				"the push is a repeat, " +
				"on another a 409 `duplicate_id`. " +
				"The topic must match one of the token's patterns; a push that would merge into another topic's " +
				"message needs the right to change that one.",
			body: "Push",
			answers: []told{
				{status: http.StatusCreated, text: "Kept as a new message.", schema: "Accepted",
					headers: []string{"Location"}},
				{status: http.StatusOK, text: "No new message: the same push had been kept before (`duplicate`), or " +
					"it went into one that waits (`merged`).",
					schema: "Accepted", headers: []string{"Location"}},
			},
			problems: map[int][]string{
				http.StatusBadRequest: concat(jsonWords, pushWords),
				http.StatusConflict:   {answer.WordDuplicateID, answer.WordStaleUID, answer.WordMaybeDelivered},
				http.StatusServiceUnavailable: concat(writeWords,
					[]string{answer.WordBucket, answer.WordBusy, answer.WordStopping}),
				http.StatusGatewayTimeout: unknown,
			},
		},
		{
			pattern: "POST /v1/messages/batch", id: "pushBatch", tag: "messages", needs: rightPush,
			summary: fmt.Sprintf("Keep up to %d messages", wire.MaxBatch),
			text: "Answers 200 with an outcome for each, in order: a refused one stands in its place and does not " +
				"hold the others back. " +
				"Only a request that cannot be read is refused as a whole.",
			body:     "Batch",
			answers:  ok("An outcome for each message, in order.", "BatchResults"),
			problems: map[int][]string{http.StatusBadRequest: jsonWords},
		},
	}
}

func messageOperations() []operation {
	change := func(words ...[]string) map[int][]string {
		return map[int][]string{
			http.StatusBadRequest: concat(append(words, jsonWords, nameWords, []string{wire.WordIfMatch})...),
			http.StatusNotFound:   noMessage,
			http.StatusConflict: changeWords(scheduler.StateDelivered, scheduler.StateCanceled,
				scheduler.StateExpired, scheduler.StateDead),
			http.StatusPreconditionFailed: {answer.WordVersion},
			http.StatusServiceUnavailable: writeWords,
			http.StatusGatewayTimeout:     unknown,
		}
	}
	run := change()
	run[http.StatusBadRequest] = concat(nameWords, []string{wire.WordIfMatch, wire.WordJSON, wire.WordUnknownField})
	return []operation{
		{
			pattern: "GET /v1/messages/{id}", id: "getMessage", tag: "messages", needs: rightLook,
			summary: "Look a message up",
			text: "Live, or while its end is remembered, with headers and body. A token without the right to read " +
				"sees the messages of the topics that " +
				"it may push to, without headers and body; others are unknown to it.",
			answers: []told{
				{status: http.StatusOK, text: "The message.", schema: "Message", headers: []string{"ETag"}}},
			problems: map[int][]string{
				http.StatusBadRequest: nameWords, http.StatusNotFound: noMessage, http.StatusConflict: ambiguous,
				http.StatusServiceUnavailable: unavailable,
			},
		},
		{
			pattern: "PATCH /v1/messages/{id}", id: "rescheduleMessage", tag: "messages", needs: rightChange,
			summary: "Change a message that waits",
			text: "Its due time, priority, headers or body. A message that is in flight, may have been delivered " +
				"or has ended stays as it was.",
			params: []object{ifMatchParam()},
			body:   "Edit",
			answers: []told{{status: http.StatusOK, text: "What the message is now.", schema: "Rescheduled",
				headers: []string{"ETag"}}},
			problems: change(editWords),
		},
		{
			pattern: "DELETE /v1/messages/{id}", id: "cancelMessage", tag: "messages", needs: rightChange,
			summary: "Cancel a message",
			text: "200 means that this delivery never comes; earlier attempts of what a consumer sent back, or of " +
				"what was requeued, may have come. Everything else says what really happened. A name that means " +
				"nothing is 404 and promises " +
				"nothing, but a push under it that still stands in the intake is then accepted as canceled (not for " +
				"a token that may not change every topic).",
			answers: ok("Canceled, now or before.", "Canceled"),
			problems: map[int][]string{
				http.StatusBadRequest: nameWords, http.StatusNotFound: noMessage,
				http.StatusConflict: changeWords(scheduler.StateDelivered, scheduler.StateExpired,
					scheduler.StateDead),
				http.StatusServiceUnavailable: writeWords, http.StatusGatewayTimeout: unknown,
			},
		},
		{
			pattern: "POST /v1/messages/{id}/run", id: "runMessage", tag: "messages", needs: rightChange,
			summary: "Make a message due now",
			text:    "The body says nothing: none at all, or {}.",
			params:  []object{ifMatchParam()},
			body:    "Nothing",
			answers: []told{{status: http.StatusOK, text: "What the message is now.", schema: "Rescheduled",
				headers: []string{"ETag"}}},
			problems: run,
		},
	}
}

const oneAtATime = " One of this kind runs at a time on an instance: a second is 409 `already_running`."

func manyOperations() []operation {
	many := func(words ...string) map[int][]string {
		return longProblems(map[int][]string{http.StatusBadRequest: concat(jsonWords, selectWords, words),
			http.StatusServiceUnavailable: writeWords})
	}
	const text = "Goes through what waits in bounded steps; what is refused for one message is counted, not told. " +
		"One that fails tells in `report` what it had done until then." +
		oneAtATime
	return []operation{
		{
			pattern: "POST /v1/messages/cancel", id: "cancelMany", tag: "messages", needs: rightOperate,
			summary: "Cancel the waiting messages that are selected", text: text,
			body: "Selection", answers: okLong("What was done, or in a dry run would be.", "Report", "ReportLine"),
			problems: many(),
		},
		{
			pattern: "POST /v1/messages/reschedule", id: "rescheduleMany", tag: "messages", needs: rightOperate,
			summary: "Move the waiting messages that are selected", text: text,
			body:     "SelectionAndTime",
			answers:  okLong("What was done, or in a dry run would be.", "Report", "ReportLine"),
			problems: many(whenWords...),
		},
	}
}

func deadOperations() []operation {
	dead := func(words ...string) map[int][]string {
		return longProblems(map[int][]string{
			http.StatusBadRequest: concat(jsonWords, deadWords, words), http.StatusNotFound: noMessage,
			http.StatusConflict:           {answer.WordNotDead, answer.WordAmbiguousID},
			http.StatusServiceUnavailable: writeWords,
		})
	}
	requeue := dead(wire.WordDelay, wire.WordHeader, wire.WordBody, answer.WordTooFar)
	requeue[http.StatusConflict] = append(requeue[http.StatusConflict], answer.WordDuplicateID)
	const text = " One that `id` names is answered with what became of it; of several in `ids` each has a result, in " +
		"order; a selection is answered by a report, " +
		"and runs long." + oneAtATime
	return []operation{
		{
			pattern: "GET /v1/dead", id: "listDead", tag: "dead", needs: rightRead,
			summary: "List dead messages",
			text: "In the order they died, bucket by bucket, without headers and bodies. A page may be short, or " +
				"empty, and still have a cursor.",
			params: []object{
				param("query", "topic", "A topic, or a pattern with NATS's wildcards. Default: all.", ref("Pattern")),
				limitParam(), cursorParam(),
			},
			answers: ok("A page.", "MessageList"),
			problems: map[int][]string{http.StatusBadRequest: {wire.WordTopic, WordLimit, WordCursor},
				http.StatusServiceUnavailable: unavailable},
		},
		{
			pattern: "POST /v1/dead/requeue", id: "requeueDead", tag: "dead", needs: rightOperate,
			summary: "Give dead messages another life",
			text: "Each becomes a new message under its name, due after `delay`. " +
				"Where the dead one may have been delivered (`uncertain`) the new one is uncertain from the start, " +
				"edited or not: its cancel answers `maybe_delivered`, and so does whatever would " +
				"change it. Requeueing is idempotent; after `outcome_unknown` the answer's `uid` " +
				"tells where to look." + text,
			body: "Requeue", answers: okLong("What became of them.", "RequeueAnswer", "ReportLine"), problems: requeue,
		},
		{
			pattern: "POST /v1/dead/purge", id: "purgeDead", tag: "dead", needs: rightOperate,
			summary: "End dead messages for good", text: "They cannot be requeued any more." + text,
			body: "Purge", answers: okLong("What became of them.", "PurgeAnswer", "ReportLine"), problems: dead(),
		},
	}
}

func topicOperations() []operation {
	pattern := []string{wire.WordTopic, wire.WordJSON, wire.WordUnknownField}
	return []operation{
		{
			pattern: "GET /v1/topics", id: "listTopics", tag: "topics", needs: rightRead,
			summary: "Count the messages of topics",
			text: "Of the topics that have any, by name. While messages move the counts are not of one instant, " +
				"and a topic that has none left may stand there with zeros.",
			params:  []object{limitParam(), cursorParam()},
			answers: ok("A page of topics, and every pause.", "Topics"),
			problems: map[int][]string{http.StatusBadRequest: {WordLimit, WordCursor},
				http.StatusServiceUnavailable: unavailable},
		},
		{
			pattern: "GET /v1/topics/{topic}", id: "getTopic", tag: "topics", needs: rightRead,
			summary: "Count the messages of one topic",
			text:    "A topic without messages is one that has none, not one that is unknown.",
			answers: ok("The counts, and the pause that holds it back.", "TopicCounts"),
			problems: map[int][]string{http.StatusBadRequest: {wire.WordTopic},
				http.StatusServiceUnavailable: unavailable},
		},
		{
			pattern: "POST /v1/topics/{topic}/pause", id: "pauseTopic", tag: "topics", needs: rightOperate,
			summary: "Hold back what falls due on a topic",
			text: "Pushes are accepted as ever. To pause what is paused tells anew who and since when. The leader " +
				"reads the pauses once a second: so long messages may still " +
				"go out. Where the journal does not confirm it the answer is outcome_unknown: the pause stands, but " +
				"may be lost with the store until it is " +
				"asked for again. The body says nothing: none at all, or {}.",
			body:    "Nothing",
			answers: ok("It is paused.", "Paused"),
			problems: map[int][]string{
				http.StatusBadRequest: pattern, http.StatusConflict: {answer.WordTooManyPauses},
				http.StatusServiceUnavailable: writeWords[:2], http.StatusGatewayTimeout: unknown,
			},
		},
		{
			pattern: "POST /v1/topics/{topic}/resume", id: "resumeTopic", tag: "topics", needs: rightOperate,
			summary: "Let a topic go again",
			text: "Ends the pause of exactly this pattern. Where the journal does not confirm it the answer is " +
				"outcome_unknown: the topic goes, but may be paused " +
				"again when the store is lost; not_paused to the same request says that both know. The body says " +
				"nothing: none at all, or {}.",
			body:    "Nothing",
			answers: ok("It is no longer paused.", "Paused"),
			problems: map[int][]string{
				http.StatusBadRequest: pattern, http.StatusNotFound: {WordNotPaused},
				http.StatusServiceUnavailable: writeWords[:2], http.StatusGatewayTimeout: unknown,
			},
		},
	}
}
