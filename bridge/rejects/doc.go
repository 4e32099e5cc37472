// Package rejects keeps the pushes by tag that could not be accepted. NATS acknowledged them to their producers before
// any instance read them, so they must not vanish.
//
//	intake ─▶ Writer.Put ─▶ stream TARRY_REJECTED_<namespace> ─▶ Rejects.List, Get
//	                        bounded: age, bytes, number by        └─▶ Push, then Drop: pushed again
//	                        first token of the topic
package rejects
