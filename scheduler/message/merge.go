package message

import (
	"crypto/sha256"
	"encoding/hex"
)

// Merge says what a push does if a message under its name is already waiting.
//
//	            none or ended    waiting                              in flight, or waiting and uncertain
//	reject      new (ended: 409) same content: duplicate; else 409    as waiting
//	keep        new              absorbed; the first content stays    becomes the next message under the name
//	replace     new              its content, due and priority win    next; uncertain: refused as maybe delivered
//	debounce    new              replace, due at most MaxWait after   as replace
//	                             the message was first accepted
//
// A message may wait as the next one under a name while the earlier one is in flight. When the earlier one comes back,
// the two meet: replace and debounce end the earlier one (KindGaveWay); keep ends the later one (KindYielded) if it is
// still waiting.
//
// A push that was absorbed, or whose content won, is remembered under its own uid as canceled (KindMerged, which names
// the message) for as long as ends are. A push that is sent twice therefore merges once. Between pushes of the intake
// the stream's order decides, in whatever order they are stored; see Message.Origin.
type Merge uint8

// The ways to merge.
const (
	MergeReject Merge = iota
	MergeKeep
	MergeReplace
	MergeDebounce
)

// ContentName returns the id of a push that merges without an id of its own. Pushes with equal topics and bodies have
// the same one.
func ContentName(topic string, body []byte) string {
	h := sha256.New()
	h.Write([]byte(topic))
	h.Write([]byte{0})
	h.Write(body)
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}
