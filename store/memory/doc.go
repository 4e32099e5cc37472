// Package memory keeps the timeline in the memory of this process. It is the embedded default of a single instance, and
// the model that the Redis timeline is tested against. Package scheduler/schedulertest specifies what a timeline does;
// this comment says how this one does it.
//
// A bucket is one mutex and the data it guards. Every message is an entry, found by uid. An entry is in one order at a
// time: a binary heap in which it knows its place, so that it leaves from anywhere in O(log n):
//
//	waiting              due, or lanes[lane]    by score, uid
//	in_flight            claimed                by term, uid
//	delivered, canceled,
//	expired              ended                  as they ended
//	dead                 dead                   by when they died, uid
//
// An entry that has ended in any state but dead keeps its message without body and headers. A push that was merged into
// another message leaves such an entry too. While one message of a name waits to be merged with an earlier one that is
// in flight or uncertain (see Merging in schedulertest), the earlier one's rival field names it.
//
// Messages are copied on their way in and out. Bodies and headers are shared and must not be modified.
//
// Nothing here outlives the process except what Machine keeps: the machine id that uids carry, and a time that none of
// its ids has reached. A restart therefore repeats no uid that a stream still remembers.
package memory
