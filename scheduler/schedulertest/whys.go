package schedulertest

import "github.com/tarry-mq/tarry/scheduler/message"

// Whys are all words of message.Why.
func Whys() []message.WhyWord {
	words := []message.WhyWord{message.WhyNotDue, message.WhyRetry, message.WhyPaused, message.WhyRate,
		message.WhyCatchUp, message.WhyNoListener, message.WhyStream, message.WhyClocks, message.WhyNoLeader,
		message.WhyTurn, message.WhyExpiring, message.WhyUnpulled, message.WhyWebhook, message.WhyBehindKey,
		message.WhyLeased, message.WhyPublishing, message.WhyInIntake, message.WhySetAside, message.WhyRejected,
		message.WhyMissing, message.WhyStoreAway}
	for _, s := range message.States() {
		if s.Ended() {
			words = append(words, message.WhyWord(s.String()))
		}
	}
	for _, k := range []message.Kind{message.KindMerged, message.KindGaveWay, message.KindYielded, message.KindRequeued,
		message.KindPurged, message.KindWithdrawn} {
		words = append(words, message.WhyWord(k.String()))
	}
	return words
}
