package schedulertest

import (
	"strings"

	"github.com/tarry-mq/tarry/scheduler"
)

// The reasons of changes that merging made.
const (
	ReasonAbsorbed = "a push was merged into it" // keep: content as it was
	ReasonReplaced = "replaced by a push"        // its content, due and priority are another push's
	ReasonGaveWay  = "replaced"                  // it came back and a later one waits
	ReasonMerged   = "merged"                    // it waited for one that came back
	MergedInto     = "merged into "              // a uid follows
)

// kindOf is the kind, and the other message, that must stand beside a reason.
func kindOf(reason string) (kind scheduler.Kind, other scheduler.UID) {
	for prefix, kind := range map[string]scheduler.Kind{
		MergedInto: scheduler.KindMerged, RequeuedAs: scheduler.KindRequeued, RequeueOf: scheduler.KindRequeue,
	} {
		if uid, is := strings.CutPrefix(reason, prefix); is {
			return kind, scheduler.UID(strings.TrimSuffix(uid, MaybeSeen))
		}
	}
	return map[string]scheduler.Kind{
		ReasonAbsorbed: scheduler.KindAbsorbed, ReasonReplaced: scheduler.KindReplaced,
		ReasonGaveWay: scheduler.KindGaveWay,
		ReasonMerged:  scheduler.KindYielded, Purged: scheduler.KindPurged, CanceledBefore: scheduler.KindWithdrawn,
		"the leader that had claimed it is gone; it may have been delivered": scheduler.KindSwept,
		"restored when it was due already":                                   scheduler.KindRestored,
	}[reason], ""
}
