// Package wire holds the rules of a push by tag, so that a mistake is told to the producer at once and not only to
// whoever reads tarry's rejects. Every file but this one is a copy of the file of the same name in bridge/wire of the
// daemon, to the byte: this module requires nats.go alone and so cannot import it. TestRules_AreTheDaemonsOwn compares
// them, and the vectors of bridge/wire/testdata pin what they do.
package wire

//go:generate sh -c "for f in decode error headers names push retry subject times; do cp ../../../wire/${DOLLAR}f.go .; done"
