// Package webhook posts the messages of topics with deliver: webhook to their targets, from every instance. It is a
// consumer that pulls, and needs no leader.
//
//	Heard, Upcoming ─▶ one goroutine for each topic with something due soon: Await, take slots, Pull
//	                   ─▶ one for each slot: post, then ack, nack or dead; answers decide, see verdict
//
// A target's slots bound its requests, and what is pulled for it: what has no slot stays in the store, where any
// instance may take it. So a target that fails or hangs holds up nothing but its own topics.
//
// Requests carry the headers of Standard Webhooks (https://www.standardwebhooks.com). The webhook-id is the uid of the
// message over all attempts, instances and restarts, so that a receiver can tell a repeat.
package webhook
