// Package intake receives the messages that producers tagged, from a stream that stores them while every instance is
// down, and hands them to the scheduler. A push is acknowledged only after the scheduler has accepted it. A redelivered
// push is the same message, because its uid is derived from its place in the stream. A push that cannot be accepted
// goes to the stream of rejects with the reason, and is acknowledged only then. A push that cannot be accepted now is
// returned to NATS for a while.
//
//	               ┌─ accepted, repeated ───────────────────▶ ack
//	stream ─▶ push ┼─ refused ─▶ stream of rejects ─────────▶ ack
//	               ├─ only its bucket unreachable ─▶ aside ─▶ ack
//	               └─ store unreachable or full ────────────▶ nak, redelivered after a pause
//
// All instances share one durable consumer.
//
// ClockSampler supplies the time on the server that timestamps pushes, Contents reports what the intake holds and waits
// for it, and Carry moves what a NATS holds to another one.
package intake
