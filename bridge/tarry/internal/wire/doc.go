// Package wire holds the rules of a push by tag, so that the producer sees a mistake at once, not whoever reads
// tarry's rejects alone. Every file but this one is generated from the file of the same name in bridge/wire of the
// daemon: this module requires nats.go alone and so cannot import it. TestRules_AreTheDaemonsOwn compares them, and the
// vectors of bridge/wire/testdata pin what they do.
package wire

//go:generate sh generate.sh
