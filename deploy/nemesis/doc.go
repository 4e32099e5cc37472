// Package nemesis has three instances on real servers, users of every kind, and faults that a seed draws, for as long
// as one likes: .ci/lab runs it, and no other command.
//
// Each fault comes once alone, then in pairs that do not meet at one place. Every round ends healed: all instances are
// ready, and what was due has gone out. So a round that does not heal fails by itself, and what comes late or again has
// the faults of its round for a reason. At the end everything must have arrived or ended; the load's history goes
// through the checker of deploy/e2e/site, that of consumers that pull and of webhooks through deploy/check/history, and
// the journal is compared with what happened.
//
// The seed decides which faults come, where and for how long, not what happens: real processes run as they like.
package nemesis
