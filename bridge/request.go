package bridge

import (
	"strings"

	"github.com/nats-io/nats.go"
)

// Who may call what is a matter of NATS permissions, on the subject that a request is published to. Two ways lead past
// them, and both are closed here, for every subject of an instance's own:
//
//   - A server publishes for its clients, unasked for permissions. JetStream delivers a message that a consumer pulls,
//     and a stream a message that is read directly, to whatever subject the reader names for his reply: also to that of
//     a call. A pulled message keeps the subject that it was stored under; one read directly carries where it is from;
//     a pull that ends without a message has a status.
//   - An instance answers to whatever subject a caller names, and may publish where the caller may not. It answers to
//     inboxes alone, those of clients and those by which servers lead an answer from one account to another.

// isRequest reports whether a message on an instance's own subject was published there by a client that waits for the
// answer at an inbox, or for none. Only such a message is acted upon.
func isRequest(subject, own, reply string, header nats.Header) bool {
	if subject != own || reply != "" && !isInbox(reply) {
		return false
	}
	for name := range header {
		switch strings.ToLower(name) {
		case "status", "nats-stream", "nats-subject", "nats-sequence":
			return false
		}
	}
	return true
}

func isInbox(subject string) bool {
	return strings.HasPrefix(subject, nats.InboxPrefix) || strings.HasPrefix(subject, "_R_.")
}
