package message

import (
	"cmp"
	"fmt"
	"strings"
	"time"
)

// UID is the identity of one accepted message. It is never reused, and it is the same in Redis, in the journal and in
// the Nats-Msg-Id of its delivery. Its text is "t-" and 16 characters of Crockford's base 32 in lower case, 80 bits
// from the highest:
//
//	41 bits  milliseconds since Epoch: when the message was generated, or stored by the intake stream
//	 1 bit   kind: 0 sonyflake, 1 intake
//	22 bits  sonyflake's sequence (12) and machine id (10), or the low bits of the intake stream's sequence
//	16 bits  hash: modulo the number of buckets it is the bucket
//
// The time comes first and the alphabet is in ASCII order, so uids sort by acceptance. Within one millisecond a
// stream's sequence cannot repeat in its low 22 bits. A recreated stream stores at other times, which is why the stored
// time is part of the identity. The prefix keeps a user's own ids (order numbers often have 16 digits) from taking the
// form of a uid.
type UID string

// Epoch is the time from which uids count. It is the default of sonyflake v2.
var Epoch = time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)

const (
	uidPrefix   = "t-"
	uidAlphabet = "0123456789abcdefghjkmnpqrstvwxyz"
	// UIDLen is the length of a uid's text in bytes.
	UIDLen = len(uidPrefix) + 16

	uidRestBits = 22
	uidHashBits = 16
	uidTimeBits = 41
	uidMaxTime  = 1<<uidTimeBits - 1
)

// Kinds of uid.
const (
	kindSonyflake = 0
	kindIntake    = 1
)

// encodeUID packs the parts of a uid. Each part must fit its bits.
func encodeUID(ms int64, kind uint64, rest uint32, hash uint16) UID {
	high := uint64(ms)<<(1+uidRestBits) | kind<<uidRestBits | uint64(rest) // 64 bits
	var b [UIDLen]byte
	copy(b[:], uidPrefix)
	// 80 bits = high (64) then hash (16), five bits a character.
	low := uint64(hash) | high<<uidHashBits // the low 64 of the 80
	top := uint64(high >> 48)               // the high 16 of the 80
	for i := 17; i >= 2; i-- {
		b[i] = uidAlphabet[low&31]
		low = low>>5 | (top&31)<<59
		top >>= 5
	}
	return UID(b[:])
}

// IsUID reports whether s has the form of a uid.
func IsUID(s string) bool {
	if len(s) != UIDLen || s[:2] != uidPrefix {
		return false
	}
	for i := 2; i < len(s); i++ {
		if strings.IndexByte(uidAlphabet, s[i]) < 0 {
			return false
		}
	}
	return true
}

// bits returns the 80 bits as the high 64 and the low 16.
func (u UID) bits() (high uint64, hash uint16) {
	if len(u) != UIDLen {
		return 0, 0
	}
	var low, top uint64
	for i := 2; i < UIDLen; i++ {
		top = top<<5 | low>>59
		low = low<<5 | uint64(strings.IndexByte(uidAlphabet, u[i])&31)
	}
	return top<<48 | low>>uidHashBits, uint16(low)
}

// Hash returns the part of the uid that decides the bucket.
func (u UID) Hash() uint16 {
	_, hash := u.bits()
	return hash
}

// Bucket returns the bucket of the uid among n buckets.
func (u UID) Bucket(n Bucket) Bucket { return Bucket(u.Hash()) % n }

// Time returns the time in the uid: when it was generated, or when the intake stored the push.
func (u UID) Time() time.Time {
	high, _ := u.bits()
	return Epoch.Add(time.Duration(high>>(1+uidRestBits)) * time.Millisecond)
}

// Nearby and Comparable bound where the sequences in two uids of the intake tell their order. A uid holds the low 22
// bits of its sequence: pushes that lie Comparable sequences apart look the other way round. A stream does not store as
// many within Nearby.
const (
	Nearby     = 10 * time.Second
	Comparable = 1 << (uidRestBits - 1)
)

// follows reports whether u stands behind other in the intake stream.
func (u UID) follows(other UID) bool {
	a, _ := u.bits()
	b, _ := other.bits()
	ahead := (a - b) & (1<<uidRestBits - 1)
	return ahead > 0 && ahead < Comparable
}

// Compare orders uids by acceptance. The times of two uids of the intake are by the clock of the server that led the
// stream, which may step back, or differ from the next leader's: nearby their sequences decide.
func (u UID) Compare(other UID) int {
	switch {
	case !u.Intake() || !other.Intake() || u.Time().Sub(other.Time()).Abs() > Nearby:
	case u.follows(other):
		return 1
	case other.follows(u):
		return -1
	}
	return strings.Compare(string(u), string(other))
}

// Intake reports whether the uid was made from a place in the intake stream.
func (u UID) Intake() bool {
	high, _ := u.bits()
	return high>>uidRestBits&1 == kindIntake
}

// GeneratedUID returns the uid made from a sonyflake number (12 bits of sequence and 10 of machine id) and the hash
// that decides the bucket.
func GeneratedUID(number int64, hash uint16) UID {
	return encodeUID(number>>uidRestBits, kindSonyflake, uint32(number&(1<<uidRestBits-1)), hash)
}

// IntakeUID returns the identity of a push from its place in the intake stream, so that a redelivered push is the same
// message. Without a name or key the bucket follows from sequence / 256, so that neighbours share a flush.
func IntakeUID(sequence uint64, stored time.Time, id, key string) (UID, error) {
	ms := stored.Sub(Epoch).Milliseconds()
	if ms < 0 || ms > uidMaxTime {
		return "", fmt.Errorf("intake message %d: stored at %s, outside %s and 41 bits of milliseconds", sequence,
			stored.UTC().Format(time.RFC3339), Epoch.Format(time.RFC3339))
	}
	hash := uint16(sequence / 256)
	if name := HashedName(id, key); name != "" {
		hash = Hash(name)
	}
	return encodeUID(ms, kindIntake, uint32(sequence&(1<<uidRestBits-1)), hash), nil
}

// HashedName returns what decides the bucket: the key, else the client id.
func HashedName(id, key string) string {
	return cmp.Or(key, id)
}

// Bucket is the number of a bucket, from 0. A bucket holds a share of the messages, with an order, a term, an outbox
// and a certification of its own. The 16-bit hash in a message's uid decides its bucket: UID.Bucket returns it, and
// BucketOf returns the bucket of a key or client id. How many buckets there are is a Bucket too, so that a range over
// it goes through all of them.
type Bucket int

// BucketOf returns the bucket of a key or client id among n buckets.
func BucketOf(name string, n Bucket) Bucket { return Bucket(Hash(name)) % n }
