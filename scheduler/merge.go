package scheduler

import (
	"crypto/sha256"
	"encoding/hex"
)

// Merge says what a push does when a message under its name waits already.
//
//	            none or ended    waiting                              in flight, or waiting and uncertain
//	reject      new (ended: 409) same content: duplicate; else 409    as waiting
//	keep        new              absorbed; the first content stays    becomes the next message under the name
//	replace     new              its content, due and priority win    next; uncertain: refused as maybe delivered
//	debounce    new              replace, due at most MaxWait after   as replace
//	                             the message was first accepted
//
// A message that waits as the next one under a name while the earlier is in
// flight meets that one again when it comes back: replace and debounce end the
// earlier (KindGaveWay), keep ends the later (KindYielded) where it still waits.
//
// A push that was absorbed, or whose content won, is remembered under its own
// uid as canceled (KindMerged, which names the message), for as long as ends are:
// so a push that is sent twice merges once. Between pushes of the intake the
// stream's order decides, whatever order they are stored in: Message.Origin.
type Merge uint8

// The ways to merge.
const (
	MergeReject Merge = iota
	MergeKeep
	MergeReplace
	MergeDebounce
)

// ContentName is the id of a push that merges without one of its own: equal
// topics and bodies meet under it.
func ContentName(topic string, body []byte) string {
	h := sha256.New()
	h.Write([]byte(topic))
	h.Write([]byte{0})
	h.Write(body)
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}
