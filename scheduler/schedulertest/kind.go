package schedulertest

import (
	"strings"

	"github.com/tarry-mq/tarry/scheduler/message"
)

// The reasons of changes that merging made.
const (
	ReasonAbsorbed = "a push was merged into it" // keep: content as it was
	ReasonReplaced = "replaced by a push"        // its content, due and priority are another push's
	ReasonGaveWay  = "replaced"                  // it came back and a later one waits
	ReasonMerged   = "merged"                    // it waited for one that came back
	MergedInto     = "merged into "              // a uid follows
)

// kindOf returns the kind and the other message that belong to a reason.
func kindOf(reason string) (kind message.Kind, other message.UID) {
	for prefix, kind := range map[string]message.Kind{
		MergedInto: message.KindMerged, RequeuedAs: message.KindRequeued, RequeueOf: message.KindRequeue,
	} {
		if uid, is := strings.CutPrefix(reason, prefix); is {
			return kind, message.UID(strings.TrimSuffix(uid, MaybeSeen))
		}
	}
	return map[string]message.Kind{
		ReasonAbsorbed: message.KindAbsorbed, ReasonReplaced: message.KindReplaced,
		ReasonGaveWay: message.KindGaveWay,
		ReasonMerged:  message.KindYielded, Purged: message.KindPurged, CanceledBefore: message.KindWithdrawn,
		"the leader that had claimed it is gone; it may have been delivered": message.KindSwept,
		"restored; it may have been delivered":                               message.KindRestored,
	}[reason], ""
}
