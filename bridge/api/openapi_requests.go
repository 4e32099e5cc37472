package api

import (
	"fmt"
	"time"

	"github.com/tarry-mq/tarry/bridge/wire"
)

// mustHave are the requests whose body is not optional. Of the others no text at all is the same as {}.
var mustHave = map[string]bool{"Push": true, "Batch": true, "Edit": true, "Selection": true, "SelectionAndTime": true,
	"Requeue": true, "Purge": true, "Redeliver": true, "RequeueRejects": true}

// shape is an object's schema. Those of requests are closed: an unknown field is refused.
func shape(text string, required []string, fields object) object {
	o := object{{"type", "object"}, {"description", text}, {"properties", fields}}
	if len(required) > 0 {
		o = append(o, member{"required", required})
	}
	return o
}

func request(text string, required []string, fields, example object, more ...member) object {
	o := append(shape(text, required, fields), member{"additionalProperties", false},
		member{"examples", []object{example}})
	return append(o, more...)
}

// field is a reference with a text of its own.
func field(schema, text string) object {
	return object{{"$ref", schemaPath + schema}, {"description", text}}
}

func typed(kind, text string, more ...member) object {
	return append(object{{"type", kind}, {"description", text}}, more...)
}

// either allows at most one of these fields.
func either(names ...string) object {
	var all []object
	for _, name := range names {
		all = append(all, object{{"required", []string{name}}})
	}
	return object{{"oneOf", append(all, object{{"not", object{{"anyOf", all}}}})}}
}

// anyOf wants at least one of these fields.
func anyOf(names ...string) (all []object) {
	for _, name := range names {
		all = append(all, object{{"required", []string{name}}})
	}
	return all
}

const spanPattern = `^\+?([0-9]*\.?[0-9]*(w|d|h|ms|us|µs|μs|ns|s|m))+$|^[0-9]+$`

// commonSchemas are what fields are made of.
func commonSchemas() object {
	const tenYears = int64(wire.MaxDelay / time.Millisecond)
	timeText := object{{"type", "string"}, {"format", "date-time"}, {"maxLength", 64}}
	timeDigits := object{{"type", "string"}, {"pattern", "^[0-9]{12,15}$"}}
	unixMillis := object{{"type", "integer"}, {"minimum", int64(wire.SecondsBelow)},
		{"exclusiveMaximum", int64(253_370_764_800_000)}}
	spanText := object{{"type", "string"}, {"pattern", spanPattern}, {"maxLength", 64}}
	return object{
		{"TopicName", typed("string", "A NATS subject: tokens joined by dots, without wildcard, blank or control "+
			"character, not under `$`, `_INBOX`, `tarry` or the intake's prefix. "+
			"The limit is in bytes.", member{"minLength", 1}, member{"maxLength", wire.MaxSubject},
			member{"examples", []string{"orders.created"}})},
		{"Pattern", typed("string", "A topic, or a pattern of topics: `*` is one token, a final `>` one or more.",
			member{"minLength", 1}, member{"maxLength", wire.MaxSubject},
			member{"examples", []string{"orders.>"}})},
		{"Name",
			typed("string", "1 to 128 bytes of UTF-8 without control characters, and without blanks at either end.",
				member{"minLength", 1}, member{"maxLength", wire.MaxID},
				member{"examples", []string{"order-7131"}})},
		{"UID", typed("string", "The internal identity of a message, never reused. Uids sort by acceptance. On NATS "+
			"it is the Nats-Msg-Id.", member{"pattern", "^t-[0-9a-hjkmnp-tv-z]{16}$"})},
		{"Duration", object{
			{"description", "Text such as `20m`, `1.5s`, `1d12h` or `2w` (units w, d, h, m, s, ms, us, ns; weeks and " +
				"days of 24 hours), or whole milliseconds. At most 3653 days. What is finer than a millisecond " +
				"rounds up."},
			{"anyOf", []object{spanText, {{"type", "integer"}, {"minimum", 0}, {"maximum", tenYears}}}},
			{"examples", []any{"20m", 1_200_000}}}},
		{"Shift", object{{"description", "A duration with a sign: `-10m` is earlier."},
			{"anyOf", []object{{{"type", "string"}, {"pattern",
				"^-?(" + spanPattern[1:len(spanPattern)-len("|^[0-9]+$")-1] + "|[0-9]+)$"}, {"maxLength", 65}},
				{{"type", "integer"}, {"minimum", -tenYears}, {"maximum", tenYears}}}},
			{"examples", []any{"-10m", -600_000}}}},
		{"Time", object{{"description", "RFC 3339, or unix milliseconds. A number that looks like seconds is refused."},
			{"anyOf", []object{timeText, timeDigits, unixMillis}},
			{"examples", []any{"2030-01-31T08:00:00Z", 1_896_076_800_000}}}},
		{"Moment", object{{"description", "A time, or a duration from now (of what is past: back from now), which " +
			"needs its unit. A bare number is unix milliseconds."},
			{"anyOf", []object{timeText, timeDigits, unixMillis, spanText}},
			{"examples", []any{"2030-01-31T08:00:00Z", "2h"}}}},
		{"Retries", object{{"description", fmt.Sprintf("How a message is tried again: up to %d delays, as text "+
			"(`0,2m,10m*5,1h`, or `exp(1s,1h,10)`, and `~20%%` behind either for jitter up to %d%%), or as a list.",
			wire.MaxRetries, wire.MaxJitter)},
			{"anyOf", []object{{{"type", "string"}, {"minLength", 1}, {"maxLength", 2048}},
				{{"type", "array"}, {"minItems", 1}, {"maxItems", wire.MaxRetries}, {"items", ref("Duration")}}}},
			{"examples", []any{"0,2m,10m*5~20%", []any{0, "2m", 600_000}}}}},
		{"Headers", object{{"type", "object"}, {"description", fmt.Sprintf("The message's own headers: a value each, "+
			"or a list. Names are HTTP tokens; `Tarry-*` and `Nats-*` are refused, and `Status` beside an empty "+
			"body. At most %d bytes in all, as NATS writes them.", wire.MaxHeaders)},
			{"propertyNames", object{{"pattern", "^[!#$%&'*+\\-.^_`|~0-9A-Za-z]+$"}}},
			{"additionalProperties", object{
				{"anyOf", []object{{{"type", "string"}}, {{"type", "array"}, {"items", object{{"type", "string"}}}}}}}},
			{"examples", []any{object{{"traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"}}}}}},
	}
}

// contentFields are what a push, an edit and a requeue give a message.
func contentFields() object {
	return object{
		{"headers", field("Headers", "The user's headers.")},
		{"body", typed("string", "The body, where it is text. At most one of body, body_base64 and body_json; with "+
			"the headers it must fit into one NATS message.", member{"examples", []string{"hello"}})},
		{"body_base64", typed("string", "The body as base64 (RFC 4648, padded).", member{"contentEncoding", "base64"},
			member{"examples", []string{"aGVsbG8="}})},
		{"body_json", object{
			{"description", "The body as a JSON value of any kind; its bytes go out as they stand in the request. " +
				"null too is a body, of four bytes. No header is added: give Content-Type where consumers want it."},
			{"examples", []any{object{{"order", 7131}}}}}},
	}
}

func priorityField() object {
	return typed("integer", "Of messages due in the same millisecond the higher leaves first.", member{"minimum", 0},
		member{"maximum", wire.MaxPriority})
}

func flag(text string, fallback bool) object {
	return typed("boolean", text, member{"default", fallback})
}

// requestSchemas are the bodies of requests.
func requestSchemas() object {
	delay, at := field("Duration", "How long it waits, from now on. 0 is now."), field("Time", "When it is due. The "+
		"past is fine and means now; a time before 1973-03-03T09:46:40Z is refused, as text as well.")
	when := object{{"delay", delay}, {"at", at}, {"shift", field("Shift", "By how much its due time moves.")}}
	oneTime := either("delay", "at", "shift")
	body := either("body", "body_base64", "body_json")

	push := append(object{{"topic", field("TopicName", "Where it is published when it is due.")}}, contentFields()...)
	push = append(push, object{
		{"delay", delay}, {"at", at},
		{"id", field("Name", "What its producer calls it; unique on its topic and within its key, and remembered for "+
			"ended.keep after the end, with a journal for names.keep. In the form of a uid it means exactly that "+
			"uid: the retry of a push whose outcome stayed unknown.")},
		{"key", field("Name", "The business key: messages of one key share a bucket.")},
		{"on_duplicate", typed("string", "What to do where the name is taken. reject: the same content is a retry, "+
			"other content 409. keep, replace and debounce merge into a message that waits.",
			member{"enum", []string{wire.Reject, wire.Keep, wire.Replace, wire.Debounce}},
			member{"default", wire.Reject})},
		{"max_wait",
			field("Duration", "With debounce: how long after the first push it is due at the latest. At least 1ms.")},
		{"priority", priorityField()},
		{"ttl", field("Duration",
			"How long after its due time it is still worth delivering. At least 1ms. Default: for ever.")},
		{"retry", field("Retries", "How it is tried again when a consumer sends it back. Default: the topic's.")},
		{"deliver",
			typed("string", "How it is delivered. Default: the topic's setting.", member{"enum", []string{wire.MQ}})},
		{"attempt", typed("integer", "A consumer's retry: the number of this attempt. Needs an id. From 2 on delay "+
			"and at may both be missing; it then waits by its schedule of retries.",
			member{"minimum", 1}, member{"maximum", wire.MaxAttempt})},
		{"reason", typed("string",
			fmt.Sprintf("With an attempt of 2 or more: why the consumer failed. Cut to %d bytes.", wire.MaxReason),
			member{"examples", []string{"no connection"}})},
	}...)

	pick := object{
		{"topic", field("Pattern", "Topics. Default: all.")},
		{"key", typed("string", "A key, which may be empty.", member{"maxLength", wire.MaxKey})},
		{"due_from", field("Moment", "The earliest due time, inclusive; a duration counts from now.")},
		{"due_to", field("Moment", "The latest due time, inclusive; a duration counts from now.")},
		{"all", flag("Needed where nothing else selects: every message that waits.", false)},
		{"dry_run", flag("Count and change nothing.", false)},
	}
	picked := object{{"anyOf", append(anyOf("topic", "key", "due_from", "due_to"),
		object{{"required", []string{"all"}}, {"properties", object{{"all", object{{"const", true}}}}}})}}

	dead := object{
		{"id", field("Name", "One message.")},
		{"key", typed("string", "With id: the key that the name belongs to.", member{"maxLength", wire.MaxKey})},
		{"ids", typed("array", "Several messages.", member{"minItems", 1}, member{"maxItems", wire.MaxIDs},
			member{"items", object{{"type", "string"}, {"minLength", 1}}})},
		{"topic", field("Pattern",
			"With id: the topic that the name belongs to, without wildcards. Else topics; default: all.")},
		{"from", field("Moment", "When they died: the earliest, inclusive; a duration counts back from now.")},
		{"to", field("Moment", "When they died: the latest, inclusive; a duration counts back from now.")},
		{"older", field("Duration", "They died at least that long ago. Not with from and to.")},
		{"all", flag("Needed where nothing else selects: every dead message.", false)},
		{"dry_run", flag("With a selection: count and change nothing.", false)},
	}
	selects := append(anyOf("topic", "from", "to", "older"),
		object{{"required", []string{"all"}}, {"properties", object{{"all", object{{"const", true}}}}}})
	deadForm := member{"oneOf", []object{
		{{"title", "one"}, {"required", []string{"id"}}, {"not", object{{"anyOf", selects[1:]}}}},
		{{"title", "several"}, {"required", []string{"ids"}}},
		{{"title", "a selection"}, {"anyOf", selects}, {"not", object{{"required", []string{"id"}}}}},
	}}
	requeue := append(dead[:len(dead):len(dead)],
		member{"delay", field("Duration", "How long each waits, from now on. Default: 0.")})
	requeue = append(requeue, contentFields()...)

	return object{
		{"Push", request("A message to keep. One of delay and at is needed, but for a consumer's retry (attempt).",
			[]string{"topic"}, push,
			object{{"topic", "orders.remind"}, {"delay", "20m"}, {"id", "order-7131"}, {"body", "hello"}},
			member{"allOf", []object{body, either("delay", "at"),
				{{"anyOf", append(anyOf("delay", "at"), object{{"required", []string{"attempt", "id"}}})}}}})},
		{"Batch", request("Messages to keep.", []string{"messages"}, object{
			{"messages", typed("array", "The pushes.", member{"minItems", 1}, member{"maxItems", wire.MaxBatch},
				member{"items", ref("Push")})},
		}, object{{"messages", []object{{{"topic", "orders.remind"}, {"delay", "20m"}, {"body", "hello"}},
			{{"topic", "orders.remind"}, {"at", "2030-01-31T08:00:00Z"}}}}})},
		{"Edit", request("What changes; what is not given stays. At least one field.", nil,
			append(append(when[:len(when):len(when)], member{"priority", priorityField()}), contentFields()...),
			object{{"delay", "1h"}},
			member{"minProperties", 1}, member{"allOf", []object{body, oneTime}})},
		{"Nothing", request("Says nothing.", nil, object{}, object{})},
		{"Selection", request("Which waiting messages. One that selects everything must say so.", nil, pick,
			object{{"topic", "orders.>"}, {"due_to", "2h"}, {"dry_run", true}},
			member{"allOf", []object{picked}})},
		{"SelectionAndTime", request("Which waiting messages, and one of delay, at and shift.", nil, append(
			pick[:len(pick):len(pick)], when...), object{{"key", "customer-9"}, {"shift", "-10m"}, {"dry_run", true}},
			member{"allOf", []object{picked, {{"oneOf", anyOf("delay", "at", "shift")}}}})},
		{"Requeue", request("Which dead messages get another life: one by id, several by ids, or a selection. "+
			"headers and body go with one id alone.", nil, requeue, object{{"id", "order-7131"}, {"delay", "1m"}},
			member{"allOf", []object{body}}, deadForm)},
		{"Purge", request("Which dead messages: one by id, several by ids, or a selection.", nil, dead,
			object{{"topic", "orders.>"}, {"older", "7d"}, {"dry_run", true}}, deadForm)},
		{"RestoreOne", request("How to restore one message.", nil,
			object{{"dry_run", flag("Count and change nothing.", false)}}, object{{"dry_run", true}})},
		{"Restore", request("What to restore.", nil, object{
			{"overdue", flag("What is due already, too.", true)},
			{"topic", field("Pattern", "Topics. Default: all.")},
			{"dry_run", flag("Count and change nothing.", false)},
			{"rate", typed("integer", "How many messages a second at most; 0 is no bound.", member{"minimum", 0},
				member{"maximum", wire.MaxRate}, member{"default", 0})},
		}, object{{"overdue", true}, {"dry_run", true}})},
		{"Verify", request("How to verify.", nil,
			object{{"repair", flag("Bring both to the higher version of each message that differs.", false)}},
			object{{"repair", false}})},
		{"Redeliver", request("What to check.", []string{"since"}, object{
			{"since", field("Moment",
				"The time of the first delivery to check; a duration counts back from now. Never in the future.")},
			{"topic", field("Pattern", "Topics. Default: all.")},
			{"dry_run", flag("Count and publish nothing.", false)},
		}, object{{"since", "2h"}, {"dry_run", true}})},
		{"Resign", request("Why.", nil, object{{"reason", typed("string", "For the log. Without control characters.",
			member{"maxLength", maxReason}, member{"examples", []string{"new kernel"}})}},
			object{{"reason", "new kernel"}})},
	}
}
