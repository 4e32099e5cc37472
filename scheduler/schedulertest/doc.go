// Package schedulertest specifies and tests the behaviour of a scheduler.Timeline. Exercise runs a named test for each
// promise; ExerciseModel runs random calls, each repeatable one twice, against a reference (store/memory) and compares
// the answers and everything observable. A correct store passes both.
//
// # What a timeline does
//
// A timeline knows only the time that a call passes as now: it never reads a clock and never expires anything by
// itself. An accepted message belongs to the timeline, which returns copies. Stored, Merge and MaxWait are not kept,
// and a message is accepted without a Mark.
//
// # Add
//
// A batch belongs to one bucket and is stored completely or not at all. Each message is judged as if those before it
// had just been added:
//
//  1. Its uid is there, live or remembered: AddDuplicate; AddMerged where it went
//     into a message that is there too, First as that stands now. AddConflict where
//     that has another Topic.
//  2. It does not merge, has an ID, and the name (ID on Topic within Key) points to
//     a message u:
//     u is canceled, expired or dead: AddConflict, but for a consumer's retry
//     (Attempt above 1) that is no later than u: the next lines judge that.
//     Its Attempt is lower than u's: AddDuplicate where an attempt under the name,
//     live or remembered, has that number and the same Digest, else AddConflict. Of
//     those that ended before a later one took the name over the last 32 count.
//     Its Attempt is higher, and u is delivered, in flight, or waiting and
//     uncertain (a consumer may have seen u and sent it back): new.
//     Else the same Digest is AddDuplicate, another is AddConflict.
//  3. What is new, has an ID, and was stored in the intake at a sequence (not 0)
//     that a tombstone of its name covers: AddedCanceled. It is remembered as
//     canceled from the start, EndedAt now, Reason CanceledBefore.
//  4. It merges, has an ID, and u is the last message under the name that lives:
//     u is in flight, or it waits uncertain and the push keeps: new, and the two are
//     remembered as a pair (below).
//     u waits uncertain, and the push does not keep: AddUncertain, nothing changes.
//     Else AddMerged: see Merging.
//  5. Otherwise Added: it waits in the bucket at its Score.
//
// A batch that is sent again changes nothing and means the same: an added message is a duplicate of itself, and a
// merged push has already merged. Only a push that was refused as uncertain merges then, where one that came after it
// in the batch took the name over, and others of the batch are judged by the content that won.
//
// A new message with an ID takes the name over. Except for Added, First is the message that was there, or the one
// accepted as canceled, without Headers and Body; for an end it has no Retry any more. head is the bucket's earliest
// due time when the add put a message before all that waited there, else 0; lanes do not count.
//
// # Merging
//
// A push merges into a message u that is certainly waiting. Usually MergeKeep leaves u's content and the others replace
// it; where both the push and u's content (Origin, or u itself) have uids of the intake and the push is the older one,
// it is the other way round, so that the stream's order decides, whatever the order of arrival.
//
// A push that wins gives u its headers, body, due, priority, digest, TTL and retries; u keeps uid, name and attempt,
// leaves its lane, waits at its Score, and forgets refusals. Origin is the push's uid where that has Stored, else
// empty. Debouncing with MaxWait, Due is at most that long after the time of u's uid, but not before now. A push that
// does not win changes only u's version: its place and lane stay. Either is one change of u, reported as ReasonReplaced
// with the content, or as ReasonAbsorbed without it.
//
// The push is remembered like a canceled message, at Version 1 with the Reason MergedInto and u's uid, for as long as
// an end is. It is not reported to the journal, and no name leads to it.
//
// A pair meets when the earlier, claimed, comes back by Return (Keep too), Sweep or Reclaim. Where the later was to
// replace or debounce, the earlier is canceled instead (ReasonGaveWay), uncertain where its mark would be, whatever
// became of the later. Where it was to keep, the earlier waits again, and the later, if it still waits, is canceled
// (ReasonMerged) and lets go of the name. A push that replaces or debounces into the later makes the pair one of its
// kind. A pair meets once; an end of the earlier dissolves it.
//
// # What is remembered
//
// A live message is found whole, with its Mark. Version is 1, and 2 once it ended. An end keeps everything except
// Headers, Body, Origin and Retry; a dead message keeps these too. A uid that comes again is judged by the Topic, and a
// caller who may not see that topic gets nothing.
//
// Dead messages stay until somebody deals with them. Other ends stay until Trim is called with now at EndedKeep after
// EndedAt or later; Trim forgets in the order in which messages ended. A name goes with its message, unless it points
// to a newer one by then.
//
// # Tombstones
//
// Bury works bucket by bucket: where a message, live or remembered, has the name, its uid is in found and nothing is
// written; where none has it, a tombstone stays. Keyed refs mean the one name, and its bucket alone; others mean the ID
// on Topic under any key, and every bucket. Burying again keeps the higher sequence and starts the tombstone's time
// anew. A bucket keeps TombstoneLimit of them: where no more fits, and found is empty, the answer is ErrManyTombstones.
// No tombstone is dropped for another, because the caller of its cancel was promised that it is remembered. Trim
// forgets those of TombstoneKeep ago or earlier, oldest first; it counts only ends, but limit bounds each.
//
// # Cancel
//
//   - waiting, in the bucket or in a lane, and certain: canceled, CancelDone;
//   - waiting and uncertain: canceled, Mark.Uncertain stays, CancelMaybe;
//   - in flight: nothing changes, CancelInFlight;
//   - canceled: what the first cancel answered, CancelDone or CancelMaybe;
//   - another end: CancelEnded;
//   - not there: CancelUnknown, and an empty Info.
//
// Info has at least UID, Due, State, Version, EndedAt and Mark.Uncertain.
//
// # Amend
//
// In this order: not there, AmendUnknown; ended, AmendEnded; in flight, AmendInFlight; waiting and uncertain,
// AmendMaybe; at Version, it is done; at Version+1 and already as asked, AmendDone and nothing changes; else
// AmendVersion. A message that is amended leaves its lane and waits at its Score. Message gives headers and body;
// refusals then count from zero, and the change is reported with the content. Head is the bucket's earliest due time
// when that became earlier.
//
// # Dead
//
// Requeue: m's uid is there, RequeueDone as before; dead is not there, RequeueUnknown; it is not dead, RequeueNotDead;
// it has a name and another message under it lives, RequeueNamed; else m waits at version 1 under the name, uncertain
// where the dead one is, and the dead one is canceled, one version on, EndedAt now, Reason RequeuedAs and m's uid. The
// name leads to m alone: its attempts count from 1 again, and those that ended before are not looked at by Add any
// more. What of them comes again under its own uid is still a duplicate; under another it reads as what a consumer
// makes of m, which must not be lost. The requeue of m is reported to the journal with its content, the Reason
// RequeueOf and the dead message's uid, and MaybeSeen if m is uncertain. Purge does the latter with the Reason Purged,
// and reports again what has it. A canceled record of a higher version is restored over a dead message.
//
// # Browse, Counts, Pause
//
// Browse goes by score and uid in the bucket, then in each lane by name; by EndedAt and uid through the dead. From and
// To bound the time within the score (due, or later after a refusal), or EndedAt. Limit is at least 1. A cursor holds a
// place, not a message: what is there throughout is met once.
//
// Count and Counts are exact while nothing moves. Waiting counts lanes too. A topic without messages is not listed, and
// has zeros if it was asked for. Counts goes by name; a topic of which one bucket holds a message throughout is met
// once, page after page. While messages move the figures are not of one instant: a topic may be listed with zeros, a
// page is short only at the end, and none is negative.
//
// A pause is kept and listed, and changes nothing else.
//
// # Leading
//
// Each call with a term, Held too, compares it with the bucket's: lower is ErrStaleTerm and changes nothing, higher
// raises it. A call with an empty list may do nothing at all; a list names a message once.
//
// Claim takes messages with Score up to ScoreNow(Now), in order of score then uid, up to Limit, and up to Bytes but at
// least one. A message weighs its body, header names and header values, and a store may add up to Overhead for its own
// framing. A claimed message has no Lane any more; the rest of its Mark is as it stood. Head is what is earliest of
// what remains in the source.
//
// Finish, Return, Sweep and Held see only what is claimed; uids that are not are skipped. Finish is given the message
// as it was claimed; it refuses a State that no claim ends in, and writes nothing then. Return places a message at
// Back.Score with Back.Mark; Mark.Lane, if any, is where. Back.Keep places it in the bucket at its own Score and leaves
// its mark. Sweep takes claims of lower terms by term, then uid; they wait in the bucket at their own Score, uncertain,
// Refusals kept. Held lists by uid.
package schedulertest
