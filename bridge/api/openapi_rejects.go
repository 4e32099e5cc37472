package api

import (
	"net/http"

	"github.com/tarry-mq/tarry/bridge/answer"
	"github.com/tarry-mq/tarry/bridge/wire"
)

// rejectOperations are those about pushes by tag that were refused.
func rejectOperations() []operation {
	all := []operation{
		{
			pattern: "GET /v1/rejects", id: "listRejects", tag: "rejects", needs: rightLook,
			summary: "List pushes by tag that were refused after NATS had acknowledged them",
			text: "Oldest first, without headers and bodies. A token without the right read sees the topics that it " +
				"may push to. What a page looks at is bounded: it " +
				"may hold fewer than the limit, or none, and have a cursor.",
			params: []object{
				param("query", "topic", "A topic, or a pattern of topics. Default: all.", ref("Pattern")),
				param("query", "id", "The Tarry-Id that was sent.", object{{"type", "string"}, {"minLength", 1}}),
				param("query", "reason", "Why they were refused: the word of the problem.",
					object{{"type", "string"}, {"minLength", 1}, {"examples", []string{wire.WordDelay}}}),
				limitParam(), cursorParam(),
			},
			answers: ok("A page.", "RejectList"),
			problems: map[int][]string{
				http.StatusBadRequest:         {wire.WordTopic, wire.WordID, WordReason, WordLimit, WordCursor},
				http.StatusServiceUnavailable: unavailable,
			},
		},
		{
			pattern: "GET /v1/rejects/{sequence}", id: "getReject", tag: "rejects", needs: rightRead,
			summary: "Show one refused push with its headers and its body",
			text:    "Headers that begin with Nats- are not kept.",
			params: []object{
				param("path", "sequence", "Its place among the rejects.", object{{"type", "integer"}, {"minimum", 1}})},
			answers: ok("The reject.", "Reject"),
			problems: map[int][]string{
				http.StatusBadRequest: {wire.WordSequence}, http.StatusNotFound: {answer.WordUnknownReject},
				http.StatusServiceUnavailable: unavailable,
			},
		},
		{
			pattern: "POST /v1/rejects/requeue", id: "requeueRejects", tag: "rejects", needs: rightRequeue,
			summary: "Push refused pushes again",
			text: "As they were sent, or with another topic, with headers set and headers dropped. A delay counts " +
				"from now. What is accepted is no reject any more; what is " +
				"refused again stays. To repeat the request makes no second message. Without the right operate the " +
				"topic must match one of the token's patterns, and " +
				"another topic always must.",
			body: "RequeueRejects",
			answers: ok("For one sequence the message; for sequences a result for each, in order.",
				"RequeueRejectsAnswer"),
			problems: map[int][]string{
				http.StatusBadRequest: concat(jsonWords, pushWords, []string{wire.WordSequence, wire.WordSequences,
					wire.WordSet, wire.WordDrop, wire.WordUnknown, wire.WordRepeated}),
				http.StatusNotFound: {answer.WordUnknownReject},
				http.StatusConflict: {answer.WordIncompleteReject, answer.WordDuplicateID, answer.WordStaleUID,
					answer.WordMaybeDelivered},

				http.StatusServiceUnavailable: concat(writeWords,
					[]string{answer.WordBucket, answer.WordBusy, answer.WordStopping}),
				http.StatusGatewayTimeout: unknown,
			},
		},
	}
	for i := range all {
		all[i].problems[http.StatusNotImplemented] = []string{answer.WordNeedsJetStream}
	}
	return all
}

// rejectSchemas are the bodies of requests and answers about rejects.
func rejectSchemas() object {
	sequence := typed("integer", "Its place among the rejects.", member{"minimum", 1})
	fields := object{
		{"sequence", sequence}, {"at", field("Timestamp", "When it was refused.")},
		{"topic", text("Where it was to be published.")},
		{"id", text("The Tarry-Id that was sent, if any.")}, {"key", text("The Tarry-Key that was sent, if any.")},
		{"reason", text("Why it was refused: the word of the problem.")}, {"detail", text("A sentence, for people.")},
		{"size", count("Bytes of the body.")},
		{"incomplete", typed("boolean", "It lacks a part of what was sent, which did not fit, and cannot be pushed "+
			"again. Left out where that is not so.")},
		{"headers", object{{"type", "object"},
			{"description", "The headers that were sent, a list of values each. Not in lists."},
			{"additionalProperties", object{{"type", "array"}, {"items", object{{"type", "string"}}}}}}},
		{"body", text("The body, where it is text. Not in lists.")},
		{"body_base64",
			typed("string", "The body, where it is not. Not in lists.", member{"contentEncoding", "base64"})},
	}
	again := object{
		{"sequence", sequence}, {"id", text("What the user calls the message, else its uid.")},
		{"uid", field("UID", "The message.")},
		{"due", field("Timestamp", "When it is due.")}, {"state", ref("State")},
		{"durable", text("What holds the message now: redis or journal.")},
		{"duplicate", typed("boolean",
			"The same push had been kept before: this is that message. Left out where that is not so.")},
		{"merged", typed("boolean", "It went into a message that waits. Left out where that is not so.")},
		{"kept", typed("boolean", "The reject could not be taken away; to push it again makes no second message. "+
			"Left out where that is not so.")},
	}
	refused := object{{"allOf",
		[]object{ref("Problem"), {{"properties", object{{"sequence", sequence}}}, {"required", []string{"sequence"}}}}}}
	return object{
		{"RequeueRejects", request("Which rejects are pushed again, and what is mended in them.", nil, object{
			{"sequence", typed("integer", "One of them.", member{"minimum", 1})},
			{"sequences", typed("array", "Several.", member{"minItems", 1}, member{"maxItems", wire.MaxIDs},
				member{"items", object{{"type", "integer"}, {"minimum", 1}}})},
			{"topic", field("TopicName", "In place of the topic that was sent.")},
			{"set", object{{"type", "object"}, {"description",
				"Headers in place of those of the same name, which matches without case."}, {"maxProperties", 100},
				{"additionalProperties", object{{"type", "string"}}}}},
			{"drop", typed("array", "Names of headers that are left out.", member{"maxItems", 100},
				member{"items", object{{"type", "string"}}})},
		}, object{{"sequence", 1}, {"set", object{{"Tarry-Delay", "20m"}}}, {"drop", []string{"Tarry-Dealy"}}},
			member{"oneOf", anyOf("sequence", "sequences")})},
		{"Reject", shape("A push by tag that NATS had acknowledged and tarry refused.",
			[]string{"sequence", "at", "topic", "reason", "detail", "size"}, fields)},
		{"RejectList", shape("A page of rejects.", []string{"rejects"}, object{
			{"rejects", listOf("The rejects.", "Reject")},
			{"cursor", text("Asks for the next page; left out on the last one.")},
		})},
		{"RequeuedReject", shape("The message that a reject became.",
			[]string{"sequence", "id", "uid", "due", "state", "durable"}, again)},
		{"RequeueRejectsAnswer", object{{"description", "For one sequence the message; for sequences a result each."},
			{"oneOf", []object{ref("RequeuedReject"),
				shape("A result for each sequence.", []string{"results"}, object{
					{"results", typed("array", "In the order of the request.",
						member{"items", object{{"oneOf", []object{ref("RequeuedReject"), refused}}}})},
				})}}}},
	}
}
