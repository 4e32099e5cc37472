// Package load makes the messages of a benchmark, sends them, and judges what arrives.
package load

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
)

// BodySize is the length of every body.
const BodySize = 256

const (
	headSize = 16 // the number of the message in hexadecimal
	poolSize = 1 << 16
	letters  = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
)

// Bodies makes the body of each message from its number, so that the receiver can compare every byte without keeping
// them. A body is plain text, which JSON needs not escape, and nothing that compresses.
type Bodies struct {
	pool []byte
}

// NewBodies makes the text that bodies are cut from.
func NewBodies() *Bodies {
	random := rand.New(rand.NewPCG(7, 131))
	b := &Bodies{pool: make([]byte, poolSize+BodySize)}
	for i := range b.pool {
		b.pool[i] = letters[random.IntN(len(letters))]
	}
	return b
}

// Append appends body n to to.
func (b *Bodies) Append(to []byte, n int) []byte {
	var number [headSize / 2]byte
	binary.BigEndian.PutUint64(number[:], uint64(n))
	to = hex.AppendEncode(to, number[:])
	return append(to, b.rest(n)...)
}

// Number returns which message a body is, if it is one of ours to the last byte.
func (b *Bodies) Number(body []byte) (n int, ok bool) {
	if len(body) != BodySize {
		return 0, false
	}
	var number [headSize / 2]byte
	if _, err := hex.Decode(number[:], body[:headSize]); err != nil {
		return 0, false
	}
	n = int(binary.BigEndian.Uint64(number[:]))
	return n, n >= 0 && bytes.Equal(body[headSize:], b.rest(n))
}

// rest is the part of body n behind its number.
func (b *Bodies) rest(n int) []byte {
	from := int(uint64(n) * 2654435761 % poolSize)
	return b.pool[from : from+BodySize-headSize]
}

// Spread is a fixed fraction of [0, 1) for each message: the same for every system, and without order.
func Spread(n int) float64 {
	x := uint64(n)*0x9E3779B97F4A7C15 + 0x632BE59BD9B4E019
	x ^= x >> 31
	x *= 0xBF58476D1CE4E5B9
	x ^= x >> 29
	return float64(x>>11) / (1 << 53)
}
