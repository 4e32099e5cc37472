// Package timeline keeps waiting messages in Redis (6.2 or later): one ZSET a
// bucket gives the order, one HASH the messages. It implements
// scheduler.Timeline; schedulertest holds it to the same behaviour as
// store/memory.
//
// # Keys
//
// Every key of bucket b carries the Cluster hash tag {<ns>:b}, so that one
// script sees one slot:
//
//	{ns:b}:due            ZSET uid → due_ms*256 + (255 - priority)
//	{ns:b}:msg            HASH uid → packed message, or the record of its end (codec.go)
//	{ns:b}:mark           HASH uid → what changed while it waits: uncertain (of a requeued one perhaps from the
//	                      start), refusals, lane; most messages have none
//	{ns:b}:name           HASH client id, topic and key → uids, in the order of attempts: mostly one; behind a slash
//	                      those of attempts that ended before
//	{ns:b}:names          ZSET of the same, all of score 0: the topics and keys of an id, for look-ups that leave
//	                      one of the two open
//	{ns:b}:next           HASH uid → "k" or "r" and the uid of the next message under its name (Merging); only while
//	                      there is one
//	{ns:b}:claimed        HASH uid → term of the leader that claimed it, ":", number of the claim
//	{ns:b}:parked:<lane>  ZSET uid → score, as in due
//	{ns:b}:behind:<lane>  ZSET uid → its own score, of what a probe put later in the lane: so its oldest is known
//	                      without a look at messages
//	{ns:b}:lanes          SET of lanes that may hold messages
//	{ns:b}:ended          LIST of ends in order: time, then uids; what Trim forgets from
//	{ns:b}:dead           ZSET uid → when it died; its message stays whole
//	{ns:b}:counts         HASH topic → how many of its messages live, or "live dead" where any are dead
//	{ns:b}:tomb, :tombs   HASH of tombstones and the ZSET of their order
//	{ns:b}:paused         HASH pattern → since when, a space, and by whom; '' → when the last change was; the same in
//	                      all buckets
//	{ns:b}:big            there once a message of more than 16 KiB was: claims then look at lengths first
//	{ns:b}:outbox         STREAM of entries for the journal (entry.go)
//	{ns:b}:outboxed       HASH: bytes and changes that stand in it
//	{ns:b}:quarantine     STREAM of entries that the journal could not hold
//	{ns:b}:gen            the bucket's certification: number, data set, until when what comes again is in doubt, phase
//	{ns:b}:term           the highest leader term seen
//	{ns}:meta, {ns:b}:meta HASH: buckets, layout
//	{ns:m0}:machines to {ns:m15}:machines   HASH slot → who gives out ids as this machine, until when
//
// The record of an end stands in msg under the message's own uid, not in a
// place of its own: then one look-up finds any state, and a push that comes
// again is recognized by the same HMGET that a new one needs.
//
// Claims are a HASH and not a ZSET by term: nothing asks for them in order but
// a sweep and Held, they are bounded by what may be in flight, and a drained
// message costs Redis less (a ZSET parses, prints and places a score each
// time). Redis keeps a hash of up to 512 short values as a list and searches it
// from one end, which made a claim of 500 quadratic and a third of all its
// time; one field with an empty name and a value of 65 bytes, above the limit
// of 64 for such a list, prevents that. It is made with the first claim and
// stays.
//
// # Merging
//
// A push that merges (scheduler.Merge) meets the last message under its name that
// lives. Where it goes into that one, the message keeps its uid and its attempt,
// its mark counts a change, and the outbox gets its amended form, with the content
// only where that changed. The push itself leaves a short record in msg under its
// own uid, canceled as "merged into" the other, and stands in ended: so it is known
// when it is sent again, and forgotten with the ends. The journal hears nothing of
// that record, and no name leads to it.
//
// Where it becomes the next message under the name instead, next holds, under the uid
// of the earlier message, the uid of the later and which of the two gives way when the
// earlier comes back: r the earlier, k the later if it still waits. Return and sweep
// look once a script whether any next exists, and read it only then; finish and cancel
// drop the next of what they end. Return takes its messages in one script and in their
// order, since two of one name may come back together.
//
// # Counts
//
// counts holds for each topic how many of its messages live, waiting or in flight,
// and how many are dead. So it changes only where a message is accepted, ends, comes
// back from the dead or changes its topic; a claim, a return and a sweep leave it.
// The caller of a script counts what is accepted and what ends. The script uses those
// counts if the whole batch succeeds, as it nearly always does; otherwise it looks at
// each message. Messages of few topics cost Redis 1 or 2 % more than uncounted ones.
// Where no two messages have one topic, each pays for a field of its own: 2.6
// microseconds of Redis beside 9.0 from push to end (BenchmarkRedis_ATopicEach beside
// BenchmarkRedis_AddClaimFinish, medians of nine), and some 40 bytes and the topic
// once more while it is held. Counting what waits and what is in flight apart took
// 7.7, since every claim moved each message from one field to another.
//
// Both numbers stand in one field. A field each was measured and costs the same, but
// a topic whose only message dies would leave one field for the other, and a walk
// with HSCAN is sure to meet only a field that is there throughout. counts is kept from being a list as
// claimed is: by a field without a name, which the certification makes, since every
// bucket is certified before it is used.
//
// How much of what lives is in flight is found when it is asked for: the rest waits.
// claimed has the uids, and is bounded by what may be in flight. The topic stands in
// the message, which can only be read whole. So claims are walked, and their messages
// read in steps by number and bytes, and only if a topic that is asked for has live
// messages. The two counts are then not of one instant: if more messages are found in
// flight than lived, the answer is as many as lived.
//
// Counts goes through the names in small steps and keeps those of the page, then
// asks for these. So a page costs a walk of all topics, whatever its size: of a
// million 1.2 seconds, in 2,000 steps of which none holds Redis for long.
//
// # Quarantine
//
// An entry of the outbox may be damaged, by a bug, an operator or a broken disk. A
// damaged entry stops no script. It is read as an entry that names the messages whose
// uids are legible, and while it is the oldest no end is forgotten, since its time is
// not known. What the journal cannot hold moves to quarantine, with the fields that it
// had (up to 64 KiB), when, why, and the messages; it stays until somebody deletes it.
// There are at most scheduler.MaxQuarantined.
//
// A form with a higher number than those that are known is no damage (codec.go): a newer
// tarry wrote it. It is refused as scheduler.ErrNewer, stays in the outbox, and nothing is
// restored over it. A leader that meets such a message when it is due sets it aside as
// one that cannot be read, for it knows neither its place nor what to send: so all
// leaders are to be as new as whoever writes a new form.
//
// # Pauses
//
// Pauses concern all buckets. They are changed with the first one, under its
// certification: so a Redis that lost some is not asked before the recovery has
// brought them back from the journal (store/journal), and nothing is claimed without
// them. Every other bucket has a copy, made with each change and by each look, and
// the latest that answers counts: where a node of a Cluster is away the pauses hold
// for the buckets of the others, and cannot be changed where it is the first
// bucket's. With the journal off they are lost with Redis.
//
// They are changed in one place because a copy is a whole: of two the later counts
// with all that it holds and lacks. Two instances that reach different nodes would
// else change different copies, each without what the other has just paused, and the
// later would let that go. Changes in any bucket that answers take a merge pattern by
// pattern, and so a memory of resumes in each copy: a pattern that one copy lacks is
// otherwise not known to be resumed rather than never heard of. They also take fences
// of the journal for the bucket that a change was made in.
//
// Every change of a pause has a time of its own, later than that of the change
// before whatever the clocks of the instances say: so the journal can tell which of
// two is the later.
//
// # Scripts
//
// Each script in lua/ names its keys, arguments and result in its head. They
// validate first and write last, because Lua has no rollback; every one but
// claim may be sent twice with the effect of once. Numbers that may exceed
// 2^53 never pass through Lua; scores and terms stay below it and travel as
// text. The leader's scripts check the term before anything else.
//
// Under memory pressure (noeviction) Redis refuses a script at its first
// growing write, and lets it go on once it has written. So add fails whole,
// while the leader's scripts, cancel, amend, requeue and purge begin with a
// removal and still work: a full Redis drains.
//
// # Certifications
//
// A bucket is used only while gen certifies the data set that answers
// (lua/server.lua). Three ids name a data set, shortened: the server's run id, the id
// of its history (master_replid in INFO replication) and that of the history before
// (master_replid2). Neither of the first two is enough:
//
//   - A primary that is demoted without a restart, takes over its replica's data set
//     and is promoted again has the same run id, and lacks what it took after the
//     replica had been promoted. Where the replica was certified in between, gen names
//     the replica; where nobody had come to that, only the ids of the histories tell.
//   - The id of the history changes although the data set stays: when the first replica
//     attaches, and when the backlog is freed (repl-backlog-ttl) after the last is gone.
//     No history stands before the new one then.
//
// So a data set is the certified one if its history has the same id; or if it has the
// same run id, and either no history before it or the history that it was certified
// with. A promoted server always has a history before: that of the primary it followed.
// The run id is asked for only where the id of the history differs, so that a script
// pays for one INFO as long as that stays: 2.6 microseconds beside 3.6 for the run id.
//
// One case remains: a server that was demoted and promoted again, and that no leader
// looks at until its backlog is freed (after an hour by default), is taken for the
// certified one.
//
// A replica is refused by READONLY, also where a script would only read: go-redis
// drops the connection then, and the next one leads to the primary.
//
// # Errors
//
// go-redis's own retries are off, since it cannot know what may be repeated.
// An answer of Redis that says the script did not run, or a connection that
// never came up, is ErrUnavailable; memory is ErrFull; a connection that broke
// or fell silent is ErrOutcomeUnknown. What else Redis answers is a mistake of
// ours and is returned as it is.
package timeline
