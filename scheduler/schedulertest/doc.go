// Package schedulertest specifies and tests the behaviour of a scheduler.Timeline. Exercise runs a named test for each
// promise. ExerciseModel runs random calls, each repeatable one twice, against a reference (store/memory) and compares
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
// had just been added. The first of these rules that gives an answer decides:
//
//  1. The uid of the push is there, live or remembered. The push is AddDuplicate. If it was merged into a message that
//     is there too, it is AddMerged, and First is that message as it is now. If the message found has another Topic,
//     the push is AddConflict.
//  2. The push does not merge and has an ID, and its name (ID on Topic within Key) points to a message u. If u is
//     canceled, expired or dead, the push is AddConflict, unless it is a consumer's retry (Attempt above 1) with an
//     Attempt up to that of u. Otherwise, if its Attempt is lower than that of u, it is AddDuplicate if an attempt
//     under the name, live or remembered, has the same number and Digest, else AddConflict. (Of the attempts that had
//     ended when a later one took the name over, only the last 32 count.) If its Attempt is higher, and u is delivered,
//     in flight, or waiting and uncertain, the push is new, because a consumer may have seen u and sent it back: the
//     next rules apply. In all other cases the same Digest is AddDuplicate, and another is AddConflict.
//  3. The push has an ID, and the intake stored it at a sequence (not 0) that a tombstone of its name covers. It is
//     AddedCanceled: the push is remembered as canceled from the start, with EndedAt now and the Reason CanceledBefore.
//  4. The push merges and has an ID, and u is the last live message under its name. If u is in flight, or if u waits
//     uncertain and the push is MergeKeep, the push is new: rule 5 applies, and the two messages are remembered as a
//     pair (see Merging). If u waits uncertain and the push is not MergeKeep, the push is AddUncertain, and nothing
//     changes. Otherwise it is AddMerged (see Merging).
//  5. The push is Added: it waits in the bucket at its Score.
//
// A batch that is sent again changes nothing and means the same: an added message is a duplicate of itself, and a
// merged push has already merged. There is one exception. A push that was refused as uncertain merges the second time
// if a later push of the batch took the name over. The other pushes of the batch are then judged by the content that
// won.
//
// A new message with an ID takes the name over. Except for Added, First is the message that was there, or the one
// accepted as canceled, without Headers and Body. An end other than a dead message has no Retry in First. head is the
// bucket's earliest due time if the add put a message before all that waited there, else 0; lanes do not count.
//
// # Merging
//
// A push merges into a message u that is waiting and certain. The content of a MergeKeep push is discarded, and that of
// any other push replaces the content of u. It is the other way round if the push is Older than the content of u
// (Origin, or u itself): the order in which pushes were stored decides, not the order of arrival.
//
// A push that replaces the content gives u its headers, body, due time, priority, digest, TTL and retries. u keeps its
// uid, name and attempt, leaves its lane, waits at its Score, and forgets its refusals. Origin becomes the uid of the
// push. If the push debounces with MaxWait, Due is at most MaxWait after the time in the uid of u, but not before now.
// A push whose content is discarded changes only the version of u, which keeps its place and lane. Either is one change
// of u, reported as ReasonReplaced with the content, or as ReasonAbsorbed without it.
//
// The push is remembered like a canceled message, at Version 1 with the Reason MergedInto and the uid of u, for as long
// as an end is. It is not reported to the journal, and no name leads to it.
//
// A pair meets when the earlier message is claimed and comes back by Return (with Keep too), Sweep or Reclaim. If the
// later message was pushed to replace or debounce, the earlier one is canceled instead (ReasonGaveWay), whatever became
// of the later; it is uncertain if its mark would be. If the later message was pushed to keep, the earlier one waits
// again. The later one, if it still waits, is then canceled (ReasonMerged) and gives up the name. If a push that
// replaces or debounces merges into the later message, the pair counts as one that replaces. A pair meets once, and an
// end of the earlier message dissolves it.
//
// # What is remembered
//
// A live message is found whole, with its Mark. Its Version is 1 at first, and rises by one with each change and with
// its end. An end keeps everything except Headers, Body, Origin and Retry; a dead message keeps these too. The Topic is
// kept to judge a uid that is pushed again, and to hide the message from callers who may not see that topic.
//
// Dead messages stay until somebody deals with them. Other ends stay until Trim is called with a now of EndedAt plus
// EndedKeep or later. Trim forgets in the order in which messages ended. A name is forgotten with its message, unless
// it points to a newer one by then.
//
// # Tombstones
//
// Bury works bucket by bucket. If a message, live or remembered, has the name, its uid is in found and nothing is
// written; otherwise a tombstone stays. A ref that is Keyed means the one name, and only its bucket. Any other ref
// means the ID on Topic under any key, in every bucket. Burying again keeps the higher sequence and starts the time of
// the tombstone anew. A bucket keeps TombstoneLimit of them. If there is no room for another and found is empty, the
// answer is ErrManyTombstones. No tombstone is dropped before its time to make room, because the caller of its cancel
// was promised that it is remembered. Trim forgets the tombstones that are at least TombstoneKeep old, the oldest
// first. It returns only the number of ends, but its limit bounds the ends and the tombstones, each on its own.
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
// The first that applies is the answer:
//
//   - not there: AmendUnknown;
//   - ended: AmendEnded;
//   - in flight: AmendInFlight;
//   - waiting and uncertain: AmendMaybe;
//   - at Version: the message is amended, AmendDone;
//   - at Version+1 and already as requested: nothing changes, AmendDone;
//   - at any other version: AmendVersion;
//   - of other content, where consumers have tried the message (it is for pull, and has refusals or was handed
//     out) or may have (it was restored): AmendTried. A push does not merge into such a message either: one that
//     would replace it ends it (ReasonGaveWay) and is Added.
//
// An amended message leaves its lane and waits at its Score. If Message is set, it replaces headers and body, and the
// change is reported with the content. Where that is another, refusals count from zero again. Head is the bucket's
// earliest due time if the amend made that earlier.
//
// # Dead
//
// Requeue replaces the message dead by m. With waits it does so for one that waits at that version and is certain. The
// first that applies is the answer:
//
//   - the uid of m is there: RequeueDone, as before;
//   - dead is not there: RequeueUnknown;
//   - dead is in another state, or another version of what waits: RequeueNotDead;
//   - dead has a name, and another message under it lives: RequeueNamed;
//   - otherwise: RequeueDone. m waits at version 1 under the name, uncertain if dead is. dead is canceled: its version
//     rises by one, EndedAt is now, and the Reason is RequeuedAs and the uid of m.
//
// The name then leads to m alone. The attempts of m count from 1 again, and Add no longer looks at the attempts that
// ended before. If one of those is pushed again under its own uid, it is still a duplicate. Under another uid it cannot
// be distinguished from a consumer's retry of m, which must not be lost. The requeue is reported to the journal as a
// change of m with its content. Its Reason is RequeueOf and the uid of dead, followed by MaybeSeen if m is uncertain.
//
// Purge cancels dead messages in the same way, with the Reason Purged. It returns those, and those that were purged
// before. Restore replaces a dead message by a canceled record of a higher version.
//
// # Browse, Counts, Pause
//
// Browse goes through the waiting messages by score and uid: first those of the bucket, then those of each lane, the
// lanes by name. It goes through the dead ones by EndedAt and uid. From and To bound the time in the score (the due
// time, or a later one after a refusal), or EndedAt. Limit is at least 1. A cursor holds a place, not a message: a
// message that stays in its place during the browse is met once.
//
// Count and Counts are exact while nothing moves. Waiting includes the messages in lanes. Counts does not list a topic
// without messages; Count returns zeros for it. Counts goes by name, page after page, and a topic of which one bucket
// holds a message throughout is met once. While messages move, the figures are not of one instant, and a topic may be
// listed with zeros. No figure is ever negative, and only the last page is short.
//
// A pause is kept and listed, and changes nothing else.
//
// # Leading
//
// Each call with a term, Held too, compares it with that of the bucket: a lower term is ErrStaleTerm and changes
// nothing, and a higher one raises that of the bucket. A call with an empty list may do nothing at all. A list names a
// message once.
//
// Claim takes messages with a Score up to ScoreNow(Now), in order of score, then uid, up to Limit, and up to Bytes but
// at least one. A message weighs its body, header names and header values, and a store may add up to Overhead for its
// own framing. A claimed message has no Lane any more; the rest of its Mark is as it was. Head is the earliest due time
// of what remains in the bucket or lane.
//
// Finish, Return, Sweep and Held concern claimed messages, and skip every other uid. Finish is passed each message as
// it was claimed. If the table of transitions does not allow an end, that message stays claimed and Refused lists it;
// the others end. Return places a message at Back.Score with Back.Mark, in the lane Mark.Lane if that is set. With
// Back.Keep it places the message in the bucket at its own Score and leaves its mark. Sweep takes the claims of lower
// terms, and those of the term itself up to the number last, by term, then uid. These messages wait in the bucket at
// their own Score, uncertain, with their refusals kept. Held lists claims by uid. The effects of Finish, Return and
// Sweep cover every change that the call reports to the journal. Those of Finish and Return also cover each message
// that the call left as it was, at its version, so a repeat waits for the first call's changes.
package schedulertest
