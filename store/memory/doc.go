// Package memory is the timeline in this process's memory: the embedded
// default of one instance, and the model that the Redis timeline is tested
// against. What a timeline does is written in scheduler/schedulertest; here is
// how.
//
// A bucket is one mutex and what it guards. Every message is an entry, found by
// uid, and stands in one order at a time, a binary heap that it knows its place
// in, so that it leaves from anywhere in O(log n):
//
//	waiting              due, or lanes[lane]    by score, uid
//	in_flight            claimed                by term, uid
//	delivered, canceled,
//	expired              ended                  as they ended
//	dead                 dead                   by when they died, uid
//
// An end without a client id lets go of its message and stays as a bare entry;
// one with an id keeps the message without body and headers.
//
// A push that merged into another message stays as a bare entry too. Two messages
// of one name that are to meet (schedulertest, Merging) are known by the earlier
// one's rival.
//
// Messages are copied on their way in and out; bodies and headers are shared
// and must not be changed by anybody.
//
// Nothing here outlives the process but what Machine keeps: the machine id that
// uids carry and a time that none of its ids has reached, so that a restart
// repeats no uid that a stream still remembers.
package memory
