// Package link has what the rooms of bridge share: the connection to NATS, JetStream's API and the list of streams, the
// names of tarry's own streams, a push's place in the intake, partitions, and the queues and bounds of work in
// progress.
package link
