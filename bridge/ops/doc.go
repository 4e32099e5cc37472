// Package ops has the operations of tarry: what callers may ask for and what they are answered, by HTTP and on NATS
// alike. It reads their requests, which are JSON, turns them into the scheduler's arguments, and its results into
// answers, with the same words and statuses through every door. It holds no connection. bridge/request and bridge/api
// both use it, so that neither needs the other.
package ops
