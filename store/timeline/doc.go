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
//	{ns:b}:mark           HASH uid → what changed while it waits: uncertain, refusals, lane; most messages have none
//	{ns:b}:name           HASH key and client id → uids, in the order of attempts: mostly one
//	{ns:b}:names          ZSET client id and key, all of score 0: the keys of an id, for look-ups by the id alone
//	{ns:b}:claimed        HASH uid → term of the leader that claimed it, ":", number of the claim
//	{ns:b}:parked:<lane>  ZSET uid → score, as in due
//	{ns:b}:lanes          SET of lanes that may hold messages
//	{ns:b}:ended          LIST of ends in order: time, then uids; what Trim forgets from
//	{ns:b}:dead           ZSET uid → when it died; its message stays whole
//	{ns:b}:tomb, :tombs   HASH of tombstones and the ZSET of their order
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
// while the leader's scripts and cancel begin with a removal and still work: a
// full Redis drains.
//
// # Errors
//
// go-redis's own retries are off, since it cannot know what may be repeated.
// An answer of Redis that says the script did not run, or a connection that
// never came up, is ErrUnavailable; memory is ErrFull; a connection that broke
// or fell silent is ErrOutcomeUnknown. What else Redis answers is a mistake of
// ours and is returned as it is.
package timeline
