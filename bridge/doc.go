// Package bridge is tarry's side of NATS and of HTTP. It has a room for each thing it does, and no code of its own.
//
//	producer ─▶ intake ─▶ scheduler ─▶ … due … ─▶ publish ─▶ subject ─▶ consumer
//	               │ refused
//	               └─▶ rejects
//	client ─▶ request (NATS), api (HTTP) ─▶ scheduler
//
//	intake    pushes by tag: pulls them from their stream, has them accepted, acknowledges them
//	publish   due messages: routes, publishes, and learns what became of each
//	request   requests on NATS, and what instances tell each other
//	rejects   the pushes that could not be accepted: stores, lists and pushes them again
//	link      what these four share: the connection, calls of JetStream's API, queues, a push's place
//	api       HTTP
//	answer    the answers and problems that api and request share
//	wire      the format of a push; the standard library only
//	tarry     the Go library, a module of its own
//
// intake imports rejects, and all four import link; a test holds the arrows. One *nats.Conn may serve all rooms; a
// separate one for the Publisher isolates it from the others.
//
// # Namespaces
//
// Two namespaces may share a server if their prefixes differ. If the prefixes overlap, their intake streams cannot both
// exist: the second one is refused, and the error names the first. Two namespaces may deliver into one stream; since
// both can assign the same uid, the Nats-Msg-Id outside of the default namespace is the uid, "@" and the namespace.
//
// # Permissions
//
// The user of an instance publishes to the topics, the calls of $JS.API that docs/access.md lists, $JS.ACK.<intake>.>,
// tarry.<namespace>.> and _INBOX.>, and subscribes to _INBOX.>, tarry.<namespace>.>, $SRV.> and
// $JS.EVENT.ADVISORY.STREAM.>; without the last one new streams are noticed some seconds later.
//
// `nats micro` sends its requests to all services on $SRV.>. An instance answers them under the rules for all requests:
// only to inboxes, and only if a client itself published the request on that subject. The permission to send such
// requests therefore does not let a client publish through an instance to other subjects. A client with a custom inbox
// prefix gets no answer.
//
// # What fails
//
// If NATS is unreachable, Send answers NotSent at once (the client keeps no reconnect buffer), pending messages become
// Unknown and Ready is false. If JetStream is unavailable, there are 503 answers and time-outs per stream. If NATS
// returns with a stream that is older than the intake's consumer, the consumer is recreated (intake/watch.go). A
// missing permission is logged once with the subject that is needed.
package bridge
