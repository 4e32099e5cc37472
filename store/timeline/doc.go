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
//	{ns:b}:mark           HASH uid → what changed while it waits: uncertain (of a requeued one perhaps from the start), refusals, lane; most messages have none
//	{ns:b}:name           HASH key and client id → uids, in the order of attempts: mostly one
//	{ns:b}:names          ZSET client id and key, all of score 0: the keys of an id, for look-ups by the id alone
//	{ns:b}:next           HASH uid → "k" or "r" and the uid of the next message under its name (Merging); there only while there are such
//	{ns:b}:claimed        HASH uid → term of the leader that claimed it, ":", number of the claim
//	{ns:b}:parked:<lane>  ZSET uid → score, as in due
//	{ns:b}:lanes          SET of lanes that may hold messages
//	{ns:b}:ended          LIST of ends in order: time, then uids; what Trim forgets from
//	{ns:b}:dead           ZSET uid → when it died; its message stays whole
//	{ns:b}:counts         HASH topic → how many of its messages live, or "live dead" where any are dead
//	{ns:b}:tomb, :tombs   HASH of tombstones and the ZSET of their order
//	{ns:0}:paused         HASH pattern → since when, a space, and by whom; '' → when the last change was; of all buckets
//	{ns:b}:big            there once a message of more than 16 KiB was: claims then look at lengths first
//	{ns:b}:term           the highest leader term seen
//	{ns}:meta             HASH: buckets, layout
//	{ns}:machines         HASH slot → who gives out ids as this machine, until when
//
// The record of an end stands in msg under the message's own uid, not in a
// place of its own: then one look-up tells any state, and a push that comes
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
// Where it becomes the next message under the name instead, next tells under the
// uid of the earlier which one is the later, and which of the two gives way when
// the earlier comes back: r the earlier, k the later where it still waits. Return
// and sweep look whether there is a next at all, once a script, and go into it only
// then; finish and cancel drop what they end. Return takes its messages in one
// script and in their order, since two of one name may come back together.
//
// # Counts
//
// counts tells of each topic how many of its messages live, waiting or in flight,
// and how many are dead. So it changes only where a message is accepted, ends, comes
// back from the dead or changes its topic; a claim, a return and a sweep leave it.
// What is accepted and what ends comes counted by the caller, and counts so where
// all of it came true, as it nearly always does; otherwise the script looks at each
// message. Messages of few topics cost Redis one or two parts in a hundred more than
// uncounted ones. Where no two messages have one topic, each pays for a field of its
// own: 2.6 microseconds of Redis beside 9.0 from push to end (BenchmarkRedis_ATopicEach
// beside BenchmarkRedis_AddClaimFinish, medians of nine), and some 40 bytes and the
// topic once more while it is held. Counting what waits and what is in flight apart
// took 7.7, since every claim moved each message from one field to another.
//
// Both numbers stand in one field. A field each was measured and costs the same, but
// a topic whose only message dies would leave one field for the other, and a walk
// with HSCAN is sure to meet only a field that is there throughout. counts is kept from being a list as
// claimed is: by a field without a name, which the certification makes, since every
// bucket is certified before it is used.
//
// How much of what lives is in flight is found when it is asked: the rest waits.
// claimed, which is bounded by what may be in flight, tells the uids, and the topic
// stands in the message, which comes only whole; so claims are walked, and their
// messages read in steps by number and bytes, and only where a topic that is asked
// for has any that live. What lives and what is in flight are then not of one
// instant: where more is found in flight than lived, as many as lived are told.
//
// Counts goes through the names in small steps and keeps those of the page, then
// asks for these. So a page costs a walk of all topics, whatever its size: of a
// million 1.2 seconds, in 2,000 steps of which none holds Redis for long.
//
// # Pauses
//
// Pauses concern all buckets and lie with the first one, under its certification: so
// a Redis that lost some is not asked before the recovery has brought them back from
// the journal (store/journal), and nothing is claimed without them. With the journal
// off they are lost with Redis.
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
// # Errors
//
// go-redis's own retries are off, since it cannot know what may be repeated.
// An answer of Redis that says the script did not run, or a connection that
// never came up, is ErrUnavailable; memory is ErrFull; a connection that broke
// or fell silent is ErrOutcomeUnknown. What else Redis answers is a mistake of
// ours and is returned as it is.
package timeline
