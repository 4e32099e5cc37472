package api

import (
	"net/http"
	"strings"

	"github.com/tarry-mq/tarry/bridge/answer"
	"github.com/tarry-mq/tarry/bridge/wire"
)

// journalOperations are those that only the journal can answer.
func journalOperations() []operation {
	all := []operation{
		{
			pattern: "GET /v1/messages", id: "listMessages", tag: "journal", needs: rightRead,
			summary: "List messages, live or ended",
			text: "In the order of due, without headers and bodies. `lag` is what the page may miss; it is left " +
				"out while nobody can tell.",
			params: []object{
				param("query", "topic", "A topic, or a pattern of topics, for which a page may be short and still "+
					"have a cursor. Default: all.", ref("Pattern")),
				param("query", "id", "Every message that ever had this name. Default: all.", ref("Name")),
				param("query", "key", "One key. Default: all.", ref("Name")),
				param("query", "state", "States, joined by commas. Default: all.", object{
					{"type", "string"}, {"pattern", "^(" + strings.Join(stateWords(), "|") + ")(,(" +
						strings.Join(stateWords(), "|") + "))*$"}, {"examples", []string{"waiting,in_flight"}},
				}),
				param("query", "due_from", "The earliest due time, inclusive; a duration counts from now.",
					ref("Moment")),
				param("query", "due_to", "The latest due time, inclusive; a duration counts from now.", ref("Moment")),
				limitParam(), cursorParam(),
			},
			answers: ok("A page.", "MessageList"),
			problems: map[int][]string{
				http.StatusBadRequest: {wire.WordTopic, wire.WordID, wire.WordKey, WordState, WordDueFrom,
					WordDueTo, WordLimit, WordCursor},
				http.StatusServiceUnavailable: unavailable,
			},
		},
		{
			pattern: "GET /v1/messages/{id}/history", id: "getHistory", tag: "journal", needs: rightLook,
			summary: "Tell everything that happened to a message",
			text: "Every change of state by version: what, when, on which instance and address, in which bucket, " +
				"under which term, and why. " +
				"`others` are the other messages that have or had the name, the latest first, the dead that were " +
				"requeued among them; a uid names one message alone. " +
				"A token without the right to read sees the messages of the topics that it may push to, without " +
				"instance, address, term, stream and sequence.",
			answers: ok("The changes, the earliest first.", "History"),
			problems: map[int][]string{
				http.StatusBadRequest: nameWords, http.StatusNotFound: noMessage, http.StatusConflict: ambiguous,
				http.StatusServiceUnavailable: unavailable,
			},
		},
		{
			pattern: "POST /v1/messages/{id}/restore", id: "restoreMessage", tag: "journal", needs: rightOperate,
			summary: "Put one message back into the store",
			text:    "Where the journal has it live and the store lacks it or has it older. It may be due already.",
			body:    "RestoreOne",
			answers: ok("What became of it.", "RestoreReport"),
			problems: map[int][]string{
				http.StatusBadRequest: concat(jsonWords, nameWords, []string{wire.WordDryRun}),
				http.StatusNotFound:   noMessage, http.StatusConflict: ambiguous,
				http.StatusServiceUnavailable: unavailable, http.StatusGatewayTimeout: unknown,
			},
		},
		{
			pattern: "GET /v1/forecast", id: "forecast", tag: "journal", needs: rightRead,
			summary: "Count what falls due, step by step",
			text:    "From now on; what is overdue is counted apart.",
			params: []object{
				param("query", "topic", "A topic, or a pattern of topics. Default: all.", ref("Pattern")),
				param("query", "step", "How long a step is: at least 1s, and at most 10,000 steps in all. Default: 1m.",
					ref("Duration")),
				param("query", "until", "Where to end: a time, or a duration from now. Default: 1h.", ref("Moment")),
			},
			answers: ok("The steps, in order; one in which nothing falls due is there, too.", "Forecast"),
			problems: map[int][]string{
				http.StatusBadRequest:         {wire.WordTopic, WordStep, WordUntil},
				http.StatusServiceUnavailable: unavailable,
			},
		},
		{
			pattern: "POST /v1/restore", id: "restore", tag: "journal", needs: rightOperate,
			summary: "Put back into the store what the journal has and the store lacks",
			text:    "While traffic goes on; nothing is wiped, and to repeat it changes nothing." + oneAtATime,
			body:    "Restore",
			answers: okLong("What became of the messages.", "RestoreReport", "RestoreLine"),
			problems: longProblems(map[int][]string{
				http.StatusBadRequest: concat(jsonWords,
					[]string{wire.WordOverdue, wire.WordTopic, wire.WordDryRun, wire.WordRate}),
				http.StatusServiceUnavailable: unavailable,
			}),
		},
		{
			pattern: "POST /v1/verify", id: "verify", tag: "journal", needs: rightOperate,
			summary: "Compare the store with the journal",
			text:    "And mend what differs, if it is told to." + oneAtATime,
			body:    "Verify",
			answers: okLong("The differences.", "VerifyReport", "VerifyLine"),
			problems: longProblems(map[int][]string{
				http.StatusBadRequest:         concat(jsonWords, []string{wire.WordRepair}),
				http.StatusServiceUnavailable: unavailable,
			}),
		},
		{
			pattern: "POST /v1/redeliver", id: "redeliver", tag: "journal", needs: rightOperate,
			summary: "Publish again what a broker lost",
			text: "Checks what NATS had stored since a moment, and publishes again what is gone, under the same " +
				"Nats-Msg-Id." + oneAtATime,
			body:    "Redeliver",
			answers: okLong("What became of the deliveries.", "RedeliverReport", "RedeliverLine"),
			problems: longProblems(map[int][]string{
				http.StatusBadRequest: concat(jsonWords,
					[]string{wire.WordSince, wire.WordTopic, wire.WordDryRun}),
				http.StatusServiceUnavailable: unavailable,
			}),
		},
	}
	for i := range all {
		all[i].problems[http.StatusNotImplemented] = []string{WordNeedsJournal}
	}
	return all
}

func clusterOperations() []operation {
	return []operation{
		{
			pattern: "GET /v1/cluster", id: "getCluster", tag: "cluster", needs: rightRead,
			summary:  "Tell who is there and who leads",
			answers:  ok("The instances.", "Cluster"),
			problems: map[int][]string{http.StatusServiceUnavailable: unavailable},
		},
		{
			pattern: "POST /v1/cluster/resign", id: "resign", tag: "cluster", needs: rightOperate,
			summary: "Make the leader step down",
			text: "For maintenance; to be asked of the instance that leads. The answer comes when it has. A body " +
				"may be missing.",
			body:    "Resign",
			answers: ok("It has stepped down.", "Resigned"),
			problems: map[int][]string{
				http.StatusBadRequest:         {wire.WordJSON, wire.WordRepeatedField, WordReason},
				http.StatusConflict:           {answer.WordNoLeader, answer.WordNotLeader, answer.WordNoStandby},
				http.StatusServiceUnavailable: unavailable,
				http.StatusGatewayTimeout:     {answer.WordOutcomeUnknown},
			},
		},
		{
			pattern: "GET /livez", id: "live", tag: "cluster", open: true,
			summary: "Tell that the process serves",
			text:    "What it needs is none of its business: to restart tarry brings no Redis back.",
			answers: ok("It serves.", "Live"),
		},
		{
			pattern: "GET /readyz", id: "ready", tag: "cluster", open: true,
			summary: "Report whether the instance can accept a push",
			text: "As leader or standby. `degraded` names what it lacks although it is ready: without NATS it " +
				"accepts and keeps what is due, " +
				"without a leader too, and with some buckets away it accepts for the others. It is not about who " +
				"could lead: see `GET /v1/cluster`, " +
				"which says in words what is wrong. Look-ups and cancels often work where it is not ready.",
			answers: []told{
				{status: http.StatusOK, text: "It can.", schema: "Ready"},
				{status: http.StatusServiceUnavailable, text: "It can accept none; the checks say what is missing.",
					schema: "Ready"},
			},
		},
		{
			pattern: "GET /metrics", id: "metrics", tag: "cluster", needs: rightRead, plain: true,
			summary: "Show the metrics",
			text:    "In the text format of Prometheus, or in the one that Accept asks for.",
			answers: []told{
				{status: http.StatusOK, text: "The metrics."},
				{status: http.StatusServiceUnavailable, text: "Four others are reading them, or they took too long."},
				{status: http.StatusInternalServerError, text: "None could be gathered."},
			},
		},
	}
}
