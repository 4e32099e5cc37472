package scheduler

import "github.com/tarry-mq/tarry/scheduler/message"

// Effect describes what a call changed in one bucket. Its changes are passed to Await, and what came earlier is
// announced.
type Effect struct {
	Changes []Recorded
	Earlier []Earlier
}

// Earlier says that a call made an order of its bucket begin earlier: at Due. It is the order of a topic that consumers
// pull or, without a topic, that of the messages for NATS.
type Earlier struct {
	Topic string
	Due   message.Milli
}

// Effect returns what the cancel changed.
func (r *CancelResult) Effect(bucket message.Bucket) (made Effect) {
	if r.Code == CancelDone || r.Code == CancelMaybe {
		made.Changes = []Recorded{{r.Info.UID, r.Info.Version, bucket, r.Number}}
		if r.Info.Serial { // its key may go to one that is due
			made.Earlier = []Earlier{{r.Info.Topic, 1}}
		}
	}
	return made
}

// Effect returns what the amend changed.
func (r *AmendResult) Effect(bucket message.Bucket) (made Effect) {
	if r.Code == AmendDone {
		made.Changes, made.Earlier = []Recorded{{r.Info.UID, r.Info.Version, bucket, r.Number}}, r.Earlier
	}
	return made
}

// Effect returns what the requeue of a dead message changed: the dead message, and the new one that continues it.
func (r *RequeueResult) Effect(bucket message.Bucket, dead message.UID) (made Effect) {
	if r.Code == RequeueDone {
		made.Changes = []Recorded{{dead, r.Old, bucket, r.Number}, {r.Info.UID, 1, bucket, r.Number}}
		made.Earlier = r.Earlier
	}
	return made
}
