// Package pull hands messages to consumers that pull, on any instance.
//
// A message for pull is ready by the clock alone. Polls of a topic stand in a line (polls.go). The first of them looks
// for all at what is ready in every bucket, shares it in their order by one call of Lease for each poll and bucket
// (handing.go), and sleeps until the next due time or until it hears of an earlier one. Consumers settle leases by
// receipt (leases.go), and the leader ends what has lapsed.
//
// A lease that may have been taken and cannot be handed out is undone by its nonce, until that is answered or the lease
// is over. The repeat of a poll with an attempt, at any instance, finds the messages by the nonce; once it has, an undo
// leaves them to it. Each bucket is settled on its own, so that neither the journal nor a bucket that does not answer
// keeps an acknowledgement from another.
package pull
