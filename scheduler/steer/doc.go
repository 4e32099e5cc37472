// Package steer looks messages up and changes them, on any instance. Its Scheduler is all that an instance does for its
// callers: it accepts pushes and hands messages out, too, by the rooms accept and pull.
//
// # Many at once
//
// An operation on many messages walks through the buckets in pages of 500 and works on 32 messages at a time. It holds
// one page in memory. Only a shift of due times needs more: until it ends it remembers the messages that it moved, in
// 26 to 41 bytes each (40 MB for a million). A narrower selection limits that. Walking in the opposite direction of the
// shift would not replace this memory: a refused message waits past its due time, and an overdue message moves to now,
// so both may still be ahead of the walk after they were moved.
//
// If the caller disconnects, the instance stops or a store is unavailable, the operation begins no more messages and
// finishes those in progress. The report therefore counts what really happened.
package steer
