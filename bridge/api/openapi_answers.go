package api

import (
	"github.com/tarry-mq/tarry/bridge/wire"
	"github.com/tarry-mq/tarry/scheduler"
)

// The schemas of answers are open: an answer may gain a field, and no client may break of it.

func text(about string) object { return typed("string", about) }

func count(about string) object { return typed("integer", about, member{"minimum", 0}) }

func listOf(about, schema string) object {
	return typed("array", about, member{"items", ref(schema)})
}

// lineOf is one line of a long operation's answer: a progress, at last the report or what went wrong.
func lineOf(schema string) object {
	return object{{"description", "One line: how far it is, once a second; at last the report, or what went wrong."},
		{"oneOf", []object{
			shape("How far it is.", []string{"progress"}, object{{"progress", ref(schema)}}),
			shape("The end.", []string{"report"}, object{{"report", ref(schema)}}),
			ref("Problem"),
		}}}
}

// dryRun is there, and true, after a dry run.
func dryRun() object {
	return typed("boolean", "Nothing was changed; the counts are of what would be done. Left out where that is not so.")
}

// answerSchemas are the bodies of answers.
func answerSchemas() object {
	var (
		id      = text("What the user calls the message, else its uid.")
		uid     = field("UID", "The message.")
		due     = field("Timestamp", "When it is due.")
		state   = ref("State")
		version = field("Version", "It counts the message's changes.")
		durable = typed("string",
			"What holds the message now: redis with Redis's own durability, or the journal, which outlives Redis.",
			member{"enum", []string{wire.DurableRedis, wire.DurableJournal}})
	)
	infoFields := object{
		{"id", id}, {"uid", uid}, {"key", text("The business key, if it has one.")},
		{"topic", text("Where it is published.")}, {"state", state}, {"version", version}, {"due", due},
		{"priority", typed("integer", "0 is left out.", member{"minimum", 0}, member{"maximum", wire.MaxPriority})},
		{"ttl", text("How long after its due time it is worth delivering, as Go writes durations: 1m0s.")},
		{"attempt", typed("integer", "The number of the next delivery, or of the last.", member{"minimum", 1})},
		{"retry", text("Its own schedule of retries, in one form.")},
		{"uncertain", typed("boolean", "An attempt with an unknown outcome may have reached a consumer.")},
		{"refusals", count("How many attempts NATS refused.")},
		{"parked", text("The lane that holds it back: the stream, or the subject, that takes nothing now.")},
		{"parked_why", text("Why it is held back, and when it is tried again. For people; it may change.")},
		{"ended_at", field("Timestamp", "When it ended, if it has.")},
		{"kind", field("Kind", "How it ended, where the state does not say it.")},
		{"other", field("UID", "The message that it went into, or goes on as.")},
		{"reason", text("Why it is as it is. For people; programs go by kind.")},
		{"headers",
			object{{"type", "object"}, {"description", "The user's headers, a list of values each. Not in lists."},
				{"additionalProperties", object{{"type", "array"}, {"items", object{{"type", "string"}}}}}}},
		{"body", text("The body, where it is text. Not in lists.")},
		{"body_base64",
			typed("string", "The body, where it is not. Not in lists.", member{"contentEncoding", "base64"})},
		{"body_omitted", typed("boolean", "There is a body, too large for this answer.")},
	}
	deadFields := object{
		{"id", text("What the request called the message.")},
		{"uid", field("UID", "The new message.")},
		{"due", field("Timestamp", "When the new message is due.")},
		{"state", field("State", "That of the new message.")},
		{"durable", durable},
	}
	topicFields := object{
		{"topic", text("The topic.")}, {"waiting", count("Messages that wait, due or not.")},
		{"in_flight", count("Messages that are being delivered.")}, {"dead", count("Messages that were given up.")},
		{"parked_why", text("Why messages that are due wait, and when they are tried again. Left out where none do.")},
	}
	topicNames := []string{"topic", "waiting", "in_flight", "dead"}
	stand := shape("What one side has; a side that lacks the message is left out.", []string{"state", "version"},
		object{{"state", state}, {"version", version}})
	return object{
		{"State", typed("string", "Where a message is on its way: waiting, in_flight, and one of four ends.",
			member{"enum", stateWords()})},
		{"Kind", typed("string", "What made a change, where the states before and after do not say it.",
			member{"enum", kindWords()})},
		{"Version", typed("integer", "A message's version: 1 is its acceptance.", member{"minimum", 0},
			member{"examples", []int{1}})},
		{"Timestamp", typed("string", "RFC 3339 in UTC with milliseconds.", member{"format", "date-time"},
			member{"pattern", `^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$`},
			member{"examples", []string{"2030-01-31T08:00:00.000Z"}})},
		{"Problem", shape("Every answer that is no success.", []string{"error", "detail"}, object{
			{"error", typed("string", "The stable word, for programs.", member{"enum", problemWords()})},
			{"detail", text("A sentence, for people. It may change.")},
			{"id", text("The message in the way; of an unknown outcome the id to repeat the push or the requeue " +
				"with; in results the id that was asked for.")},
			{"uid", field("UID", "The message in the way, or that of an unknown outcome: after a requeue the new "+
				"one, which is there if it was requeued.")},
			{"state", text("What the message in the way is.")},
			{"due", field("Timestamp", "When the message in the way is due.")},
			{"at", field("Timestamp", "When the message in the way ended.")},
			{"version", field("Version", "The one that stands, where another was asked for.")},
			{"bucket",
				typed("integer", "With bucket_unavailable: the bucket that does not answer.", member{"minimum", 0})},
			{"report", field("Report", "What an operation on many had done before it failed.")},
			{"candidates", typed("array",
				"With ambiguous_id: the messages that the name may mean, of those that the caller may see.",
				member{"maxItems", scheduler.MaxNamesOfID}, member{"items", ref("Candidate")})},
		})},
		{"Candidate",
			shape("A message that an ambiguous name may mean.", []string{"topic", "key", "uid", "state"}, object{
				{"topic", text("Its topic.")}, {"key", text("Its key; empty where it has none.")}, {"uid", uid},
				{"state", state},
			})},
		{"Accepted", shape("A push that is kept.", []string{"id", "uid", "due", "state", "version", "durable"}, object{
			{"id", id}, {"uid", uid}, {"due", due}, {"state", state}, {"version", version}, {"durable", durable},
			{"duplicate", typed("boolean", "The same push had been kept before: this is that message, be it "+
				"delivered. Left out where that is not so.")},
			{"merged", typed("boolean", "It went into a message that waits. Left out where that is not so.")},
			{"name_checked", typed("boolean",
				"false: the journal did not answer whether the name was used before; it was kept by what Redis "+
					"remembers. Left out where that is not so.")},
		})},
		{"BatchResults", shape("An outcome for each push.", []string{"results"}, object{
			{"results", typed("array", "In the order of the request.", member{"maxItems", wire.MaxBatch},
				member{"items", object{{"oneOf", []object{ref("Accepted"), ref("Problem")}}}})},
		})},
		{"Message", shape("A message. What does not apply to it is left out.",
			[]string{"id", "uid", "topic", "state", "version", "due"}, infoFields)},
		{"MessageList", shape("A page of messages, without headers and bodies.", []string{"messages"}, object{
			{"messages", listOf("The messages.", "Message")},
			{"cursor", text("Asks for the next page; left out on the last one.")},
			{"lag", field("Lag", "How far the journal was behind just before the page was read. Left out while "+
				"nobody can tell, and of dead messages.")},
		})},
		{"Lag", shape("What has happened and is not in the journal yet.", []string{"changes", "bytes"}, object{
			{"changes", count("Changes.")}, {"bytes", count("Bytes.")},
			{"oldest", field("Timestamp", "When the oldest of them happened.")},
			{"quarantined", count("Entries of the outbox that the journal could not hold; verify lists them. " +
				"They count nowhere else. Left out where there are none.")},
		})},
		{"Rescheduled", shape("What a message is now.",
			[]string{"id", "uid", "state", "due", "version", "priority", "topic"}, object{
				{"id", id}, {"uid", uid}, {"state", state}, {"due", due}, {"version", version},
				{"priority", priorityField()}, {"topic", text("Where it is published.")},
			})},
		{"Canceled", shape("A message whose delivery never comes.", []string{"id", "uid", "state"}, object{
			{"id", id}, {"uid", uid},
			{"state", typed("string", "Always canceled.", member{"const", scheduler.StateCanceled.String()})},
			{"topic", text("Where it would have been published.")},
			{"due", field("Timestamp", "When it would have been due.")},
			{"at", field("Timestamp", "When it was canceled.")}, {"version", version},
			{"attempt",
				typed("integer", "The number of the delivery that never comes; above 1, earlier ones were delivered.",
					member{"minimum", 1})},
		})},
		{"Report", shape("What an operation on many did, or in a dry run would do. What matched and is "+
			"counted nowhere else was not begun: the operation was ended.",
			[]string{"looked", "matched", "done", "in_flight", "maybe_delivered", "ended", "failed"}, object{
				{"dry_run", dryRun()}, {"looked", count("Messages looked at.")},
				{"matched", count("Messages that are selected.")}, {"done", count("Messages changed as asked.")},
				{"in_flight", count("Not changed: they were being delivered.")},
				{"maybe_delivered", count("Not changed as asked: they may have been delivered.")},
				{"ended", count("Not changed: they had ended.")}, {"failed", count(
					"Something else was in the way. Only beside outcome_unknown may some of them have been changed.")},
			})},
		{"ReportLine", lineOf("Report")},
		{"Requeued", shape("The new message that a dead one became.",
			[]string{"id", "uid", "due", "state", "durable"}, deadFields)},
		{"Purged", shape("A dead message that is gone.", []string{"id", "purged"},
			object{{"id", text("What the request called the message.")},
				{"purged", typed("boolean", "Always true.", member{"const", true})}})},
		{"RequeueAnswer",
			object{{"description", "For one id what it became; for ids a result each; for a selection a report."},
				{"oneOf", []object{ref("Requeued"), ref("RequeueResults"), ref("Report")}}}},
		{"RequeueResults", shape("A result for each id.", []string{"results"}, object{
			{"results", typed("array", "In the order of the request.",
				member{"items", object{{"oneOf", []object{ref("Requeued"), ref("Problem")}}}})},
		})},
		{"PurgeAnswer",
			object{{"description", "For one id that it is gone; for ids a result each; for a selection a report."},
				{"oneOf", []object{ref("Purged"), ref("PurgeResults"), ref("Report")}}}},
		{"PurgeResults", shape("A result for each id.", []string{"results"}, object{
			{"results", typed("array", "In the order of the request.",
				member{"items", object{{"oneOf", []object{ref("Purged"), ref("Problem")}}}})},
		})},
		{"Topics",
			shape("A page of the topics that have messages, and every pause.", []string{"topics", "paused"}, object{
				{"topics", typed("array", "By name.", member{"items", shape("One topic.", topicNames, topicFields)})},
				{"paused", listOf("What is paused.", "Pause")},
				{"cursor", text("Asks for the next page; left out on the last one.")},
			})},
		{"TopicCounts", shape("The messages of a topic.", append(topicNames[:len(topicNames):len(topicNames)],
			"paused"), append(topicFields[:len(topicFields):len(topicFields)],
			member{"paused", object{{"description", "The pause that holds it back: its own, else the first whose " +
				"pattern matches; null for none."}, {"oneOf", []object{ref("Pause"), {{"type", "null"}}}}}}))},
		{"Pause", shape("A pause.", []string{"pattern", "by", "at"}, object{
			{"pattern", text("The topics that are held back.")},
			{"by", text("Who asked for it: a token's name, else an address.")},
			{"at", field("Timestamp", "Since when.")},
		})},
		{"Paused", shape("How a pattern stands now.", []string{"pattern", "paused", "in_effect"}, object{
			{"in_effect", typed("boolean", "The leader has taken the change over: of a pause, nothing more leaves. "+
				"Else it normally does within a second, "+
				"and a new leader before anything leaves.")},
			{"pattern", text("The topics.")}, {"paused", typed("boolean", "Whether they are held back.")},
			{"by", text("Who asked for the pause.")},
		})},
		{"History", shape("Everything that happened to a message.", []string{"id", "uid", "history"},
			object{{"id", id}, {"uid", uid}, {"history", listOf("By version.", "Change")},
				{"others", listOf("The others that have or had this name, the latest first.", "Life")},
				{"more", typed("boolean", "There are others yet.")}})},
		{"Life", shape("Another message of the name.", []string{"uid", "state", "due", "history"}, object{
			{"uid", uid}, {"state", field("State", "What it is.")},
			{"due", field("Timestamp", "When it is or was due.")},
			{"kind", field("Kind", "How it ended, where the state does not say it: requeued, for one.")},
			{"other", field("UID", "The message that the kind names, such as the one as which it goes on.")},
			{"reason", text("Why it ended.")}, {"history", listOf("By version.", "Change")},
		})},
		{"Change", shape("One change. What does not apply to it is left out.",
			[]string{"version", "state", "at", "bucket"}, object{
				{"version", version}, {"state", field("State", "What the message was after it.")},
				{"at", field("Timestamp", "When.")}, {"due", field("Timestamp", "When the message was due after it.")},
				{"bucket", count("Where it lay.")},
				{"instance", text("Which instance made it.")}, {"address", text("At which address.")},
				{"term", count("Under which leadership; left out for a change that any instance may make.")},
				{"attempt", count("The number that the delivery carried.")},
				{"claimed", field("Timestamp", "When the attempt was claimed that led to it.")},
				{"kind", field("Kind", "What made it, where the states do not say it.")},
				{"other", field("UID", "The message that it names: the one that it went into, or goes on as or for.")},
				{"reason", text("Why. For people; programs go by kind.")},
				{"stream", text("Where NATS stored the delivery.")}, {"sequence", count("At which place.")},
			})},
		{"Forecast", shape("What falls due.", []string{"overdue", "steps"}, object{
			{"overdue", count("Messages that should have left already.")},
			{"steps", typed("array", "The last may be shorter.", member{"maxItems", maxSteps},
				member{"items", shape("One step.", []string{"from", "count"}, object{
					{"from", field("Timestamp", "When it begins.")}, {"count", count("Messages that fall due in it.")},
				})})},
		})},
		{"RestoreReport", shape("What became of the messages that the journal has live, or after a dry run would.",
			[]string{"read", "added", "raised", "same", "in_flight", "newer"}, object{
				{"dry_run", dryRun()}, {"read", count("Messages read from the journal.")},
				{"added", count("The store lacked them.")}, {"raised", count("The store had them older.")},
				{"same", count("The store has them as they are.")}, {"in_flight", count("They are being delivered.")},
				{"newer", count("The store has them newer.")},
			})},
		{"RestoreLine", lineOf("RestoreReport")},
		{"VerifyReport", shape("How store and journal differ.",
			[]string{"in_store", "in_journal", "found", "repaired", "differences"}, object{
				{"in_store", count("Messages looked at in the store.")},
				{"in_journal", count("Messages looked at in the journal.")},
				{"found", object{{"type", "object"}, {"description", "How many differences of each kind."},
					{"propertyNames", object{{"$ref", schemaPath + "DifferenceKind"}}},
					{"additionalProperties", object{{"type", "integer"}, {"minimum", 0}}}}},
				{"repaired", count("Differences that were mended.")},
				{"differences", typed("array", "The first of them one by one; none while it runs.",
					member{"maxItems", scheduler.MaxDifferences}, member{"items", ref("Difference")})},
				{"refused",
					typed("array", "Changes that the store was asked for and did not make; the messages stay as "+
						"they were. Left out where there are none.",
						member{"items", ref("Refused")})},
				{"quarantined",
					typed("array", "Entries of the outbox that the journal could not hold, and that stand apart "+
						"in the store. Left out where there are none.", member{"items", ref("Quarantined")})},
			})},
		{"VerifyLine", lineOf("VerifyReport")},
		{"DifferenceKind", typed("string", "How the two differ.", member{"enum", []string{scheduler.MissingInStore,
			scheduler.MissingInJournal, scheduler.StoreOlder, scheduler.StoreNewer}})},
		{"Difference", shape("One message.", []string{"uid", "bucket", "kind", "repaired"}, object{
			{"uid", uid}, {"bucket", count("Where it lies.")}, {"kind", ref("DifferenceKind")}, {"store", stand},
			{"journal", stand}, {"repaired", typed("boolean", "It was mended.")},
		})},
		{"Refused", shape("One change that was refused.", []string{"uid", "bucket", "from", "to", "at"}, object{
			{"uid", uid}, {"bucket", count("Where it lies.")}, {"from", text("What the message was.")},
			{"to", text("What it was to become.")},
			{"kind", field("Kind", "What was to make it, where the states do not say it.")},
			{"at", field("Timestamp", "When.")},
			{"unreadable",
				typed("boolean", "Its record in the store is damaged, so that nobody knows what the message was: "+
					"`from` is none. Left out where it is not.")},
		})},
		{"Quarantined", shape("One entry that the journal could not hold.",
			[]string{"bucket", "entry", "at", "reason", "known", "uids"},
			object{
				{"bucket", count("Where it lies.")}, {"entry", text("Its place in the outbox.")},
				{"at", field("Timestamp", "When it was quarantined.")}, {"reason", text("Why. For people.")},
				{"known", typed("boolean",
					"The journal got the states that the messages had since. Where it did not, and the "+
						"store has forgotten them, they are not restored.")},
				{"uids", typed("array", "The messages whose change the journal lacks, as far as they can be told.",
					member{"maxItems", scheduler.MaxQuarantinedUIDs}, member{"items", uid})},
			})},
		{"RedeliverReport",
			shape("What became of the deliveries that were checked. After a dry run none is redelivered.",
				[]string{"checked", "present", "gone", "redelivered", "unknown", "failed"}, object{
					{"dry_run", dryRun()}, {"checked", count("Deliveries checked.")},
					{"present", count("NATS has them.")},
					{"gone", count("NATS has lost them.")}, {"redelivered", count("Published again.")},
					{"unknown",
						count("Cannot be judged: delivered by core NATS, from a stream that drops what was consumed " +
							"or is past its limits, or pruned here.")},
					{"failed", count("Could not be published again.")},
				})},
		{"RedeliverLine", lineOf("RedeliverReport")},
		{"Cluster", shape("Who is there.", []string{"namespace", "term", "leader", "instances"}, object{
			{"namespace", text("The namespace.")}, {"term", count("The number of the present leadership.")},
			{"leader", object{{"description", "Who leads; null while nobody does."}, {"oneOf", []object{
				shape("The leader.", []string{"instance", "address", "since"}, object{{"instance", text("Its name.")},
					{"address", text("Where others reach it.")}, {"since", field("Timestamp", "Since when.")}}),
				{{"type", "null"}},
			}}}},
			{"instances", listOf("All that live.", "Instance")},
			{"parked", typed("array", "What holds messages back; left out where nothing does, or nobody can tell.",
				member{"maxItems", maxParked},
				member{"items", shape("One lane.", []string{"lane", "why"}, object{
					{"lane", text("The stream, subject, pause or rate.")},
					{"why", text("Why, and when it is tried again.")},
				})})},
			{"journal", shape("The journal; left out where nobody can tell.", []string{"mode"}, object{
				{"mode", typed("string", "Its mode.", member{"enum", []string{journalOff, journalAsync, journalSync}})},
				{"lag", field("Lag", "How far it is behind; left out while nobody can tell.")},
			})},
			{"checks", listOf("What the instance that answers needs, and what is wrong with it.", "Check")},
		})},
		{"Instance", shape("One instance.", []string{"instance", "address", "role", "healthy", "version"}, object{
			{"instance", text("Its name.")}, {"address", text("Where others reach it.")},
			{"role", typed("string", "What it does.", member{"enum", []string{RoleLeader, RoleStandby}})},
			{"healthy", typed("boolean",
				"It last said that it could lead. One that died stands here until its session ends.")},
			{"version", text("Of its binary.")},
			{"other_store",
				typed("boolean", "Its Redis is not the leader's: it takes nothing until its settings are mended.")},
		})},
		{"Resigned", shape("The leader has stepped down.", []string{"resigned"},
			object{{"resigned", typed("boolean", "Always true.", member{"const", true})}})},
		{"Live", shape("The process serves.", []string{"live"},
			object{{"live", typed("boolean", "Always true.", member{"const", true})}})},
		{"Ready", shape("Whether the instance can accept a push.", []string{"ready", "checks"}, object{
			{"ready", typed("boolean", "It can, at least for some buckets.")},
			{"degraded", typed("array", "The checks that fail although it is ready.",
				member{"items", typed("string", "Its name.")})},
			{"checks", listOf("What it needs.", "Check")},
		})},
		{"Check", shape("One thing that an instance needs.", []string{"name", "ok"}, object{
			{"name", text("What it is.")}, {"ok", typed("boolean", "It is there.")},
			{"buckets", typed("array", "The buckets that it lacks in; left out where it concerns all, or none.",
				member{"items", count("The number of a bucket.")})},
			{"detail", text("What is wrong, in words; at /v1/cluster only.")},
		})},
	}
}

// kindWords are the kinds of changes that have a word.
func kindWords() (words []string) {
	for k := scheduler.KindPlain + 1; k.Valid(); k++ {
		words = append(words, k.String())
	}
	return words
}
