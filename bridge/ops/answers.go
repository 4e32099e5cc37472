package ops

import (
	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
	"github.com/tarry-mq/tarry/scheduler/record"
)

// The answers of the HTTP API and of the request API, defined once for writers and readers. Times are text as
// FormatTime writes them, or know that form. Fields that do not apply are omitted where the tag says omitempty.
// openapi.json describes them.

// MessageList is a page of messages, without headers and bodies. Cursor asks for the next page; the last page has none.
type MessageList struct {
	Messages []Info               `json:"messages"`
	Rejected []scheduler.Rejected `json:"rejected,omitempty"` // with an id, on the first page
	Cursor   string               `json:"cursor,omitempty"`
	Lag      *record.Lag          `json:"lag,omitempty"` // what the page may miss; nil while it is not known
	// Order is bucket where the store was read, which has no order over all. Looked says how far that came.
	Order  string    `json:"order,omitempty"`
	Looked *WhyPlace `json:"looked,omitempty"`
}

// History is the last recorded changes of a message and of the other messages that have or had its name, the latest
// first.
type History struct {
	ID      string          `json:"id"`
	UID     message.UID     `json:"uid"`
	History []record.Change `json:"history"`
	Earlier bool            `json:"earlier,omitempty"` // there are earlier changes
	Others  []Life          `json:"others,omitempty"`
	More    bool            `json:"more,omitempty"` // there are more others
	// Rejected are pushes of the name that were rejected, the latest first.
	Rejected []scheduler.Rejected `json:"rejected,omitempty"`
}

// Life is another message with the same name.
type Life struct {
	UID     message.UID     `json:"uid"`
	State   message.State   `json:"state"`
	Due     message.Milli   `json:"due"`
	Kind    message.Kind    `json:"kind,omitempty"`
	Other   message.UID     `json:"other,omitempty"`
	Reason  string          `json:"reason,omitempty"`
	History []record.Change `json:"history"`
	Earlier bool            `json:"earlier,omitempty"` // there are earlier changes
}

// DeadResult is the outcome for one dead message. UID is the uid of the message that replaces it.
type DeadResult struct {
	ID      string `json:"id"`
	UID     string `json:"uid,omitempty"`
	Due     string `json:"due,omitempty"`
	State   string `json:"state,omitempty"`
	Durable string `json:"durable,omitempty"`
	Purged  bool   `json:"purged,omitempty"`
}

// RejectList is a page of rejects. Cursor asks for the next page; the last page has none.
type RejectList struct {
	Rejects []Rejected `json:"rejects"`
	Cursor  string     `json:"cursor,omitempty"`
}

// RequeuedReject is a reject that was pushed again. Kept reports that the push was accepted but its reject could not be
// removed; pushing it once more makes no second message.
type RequeuedReject struct {
	Sequence  uint64 `json:"sequence"`
	ID        string `json:"id"`
	UID       string `json:"uid"`
	Due       string `json:"due"`
	State     string `json:"state"`
	Durable   string `json:"durable"`
	Duplicate bool   `json:"duplicate,omitempty"`
	Merged    bool   `json:"merged,omitempty"`
	Kept      bool   `json:"kept,omitempty"`
}

// Topics is a page of topics with the number of their waiting, in-flight and dead messages, and of all pauses. Cursor
// asks for the next page; the last page has none.
type Topics struct {
	Topics []TopicRow        `json:"topics"`
	Paused []scheduler.Pause `json:"paused"`
	// Webhooks are those that post messages of topics.
	Webhooks []Webhook `json:"webhooks,omitempty"`
	Cursor   string    `json:"cursor,omitempty"`
}

// Webhook is how the target of a webhook does, as the instance that answers has seen it.
type Webhook struct {
	Pattern string `json:"pattern"`
	Target  string `json:"target"` // scheme and host of its URL
	// At is when it was last asked, and Outcome what came of that; empty before.
	At      string `json:"at,omitempty"`
	Outcome string `json:"outcome,omitempty"`
	// FailingSince is since when it has failed, over all instances; empty if the last request succeeded.
	FailingSince string `json:"failing_since,omitempty"`
}

// TopicCount is how many messages a topic has.
type TopicCount struct {
	scheduler.TopicCount
	// Why says why due messages wait, if they do.
	Why      message.Why    `json:"why,omitzero"`
	Settings *TopicSettings `json:"settings,omitempty"`
}

// TopicRow is a topic of a list, with the pause that holds it back, also while none is due: its own, or the first whose
// pattern matches.
type TopicRow struct {
	TopicCount
	Paused *scheduler.Pause `json:"paused,omitempty"`
}

// TopicCounts is one topic, with its pause or nil.
type TopicCounts struct {
	TopicCount
	Paused *scheduler.Pause `json:"paused"`
}

// Paused is the answer to a pause and to a resume.
type Paused struct {
	Pattern string `json:"pattern"`
	Paused  bool   `json:"paused"`
	By      string `json:"by,omitempty"`
	// InEffect reports whether the leader has applied the change. If not, the leader applies it within a second, and a
	// new leader applies it before it delivers anything.
	InEffect bool `json:"in_effect"`
}

// Cluster lists the instances and names the leader.
type Cluster struct {
	Namespace string             `json:"namespace"`
	Term      uint64             `json:"term"`
	Leader    *Leader            `json:"leader"` // nil while nobody leads
	Instances []Instance         `json:"instances"`
	Parked    []scheduler.Parked `json:"parked,omitempty"`
	Journal   *JournalState      `json:"journal,omitempty"` // nil where it is not known
	Checks    []Check            `json:"checks,omitempty"`  // of the instance that answers
	Clocks    string             `json:"clocks,omitempty"`  // why no majority of clocks votes there; empty if one does
	// Missing are the instances that did not tell their details, if those are asked for.
	Missing []string `json:"missing,omitempty"`
}

// InstanceDetail is what an instance tells of itself.
type InstanceDetail struct {
	Since  message.Milli  `json:"since"` // when it started
	Checks []Check        `json:"checks"`
	Clocks []ClockReading `json:"clocks"`
}

// ClockReading is by how much a clock is ahead of the time that decides what is due there, at least and at most.
type ClockReading struct {
	Source  string  `json:"source"` // redis, nats, or machine
	LeastMS float64 `json:"least_ms"`
	MostMS  float64 `json:"most_ms"`
}

// Leader names the leading instance and says since when it leads.
type Leader struct {
	Instance string `json:"instance"`
	Address  string `json:"address"`
	Since    string `json:"since"`
}

// The roles of an instance.
const (
	RoleLeader  = "leader"
	RoleStandby = "standby"
	RoleGone    = "gone"
)

// Instance is a live instance, or one that was.
type Instance struct {
	Instance string `json:"instance"`
	Address  string `json:"address"`
	Role     string `json:"role"`
	// Ready reports that it takes pushes, and Lacks what its checks find amiss, both as at its own /readyz. CanLead
	// reports that it could lead: it delivers then.
	Ready   bool     `json:"ready"`
	Lacks   []string `json:"lacks,omitempty"`
	CanLead bool     `json:"can_lead"`
	// Differs names the settings that are not as the leader's.
	Differs []string `json:"differs,omitempty"`
	// Restored is how many messages it found missing in the store since it started, as the leader, and gave back from the
	// journal, and when last.
	Restored string `json:"restored,omitempty"`
	// Seen is when it was last there, if it is gone.
	Seen    string `json:"seen,omitempty"`
	Version string `json:"version"`
	// OtherStore reports that the instance's store is not the leader's.
	OtherStore bool `json:"other_store,omitempty"`
	// Linked reports that the standby's link to the leader stands, so that it sees at once that the leader is dead.
	Linked bool `json:"linked,omitempty"`
	// Detail is nil unless it is asked for, and where the instance did not answer.
	Detail *InstanceDetail `json:"detail,omitempty"`
}

// JournalState is the journal's part of a Cluster.
type JournalState struct {
	Mode string      `json:"mode"`
	Lag  *record.Lag `json:"lag,omitempty"`
}

// Ready says whether an instance can accept a push and, if not, what is missing.
type Ready struct {
	Ready    bool     `json:"ready"`
	Degraded []string `json:"degraded,omitempty"`
	Checks   []Check  `json:"checks"`
}

// Check is one requirement of an instance. Detail is shown only with the read right, so only a Cluster has it.
type Check struct {
	Name    string `json:"name"`
	OK      bool   `json:"ok"`
	Buckets []int  `json:"buckets,omitempty"`
	Detail  string `json:"detail,omitempty"`
}

// WhyList is the answer to the question where messages are, and why.
type WhyList struct {
	Messages []Info     `json:"messages"` // without headers and bodies
	Pushes   []WhyPush  `json:"pushes,omitempty"`
	Looked   []WhyPlace `json:"looked"`
}

// WhyPush is a push that is no message: nobody has read it, or it was rejected.
type WhyPush struct {
	ID    string        `json:"id,omitempty"`
	UID   string        `json:"uid,omitempty"`
	Key   string        `json:"key,omitempty"`
	Topic string        `json:"topic"`
	At    message.Milli `json:"at"` // when NATS stored it
	Why   message.Why   `json:"why"`
}

// WhyPlace says how far a place was looked at. Of a caller that may see some topics only, what it read is not counted.
type WhyPlace struct {
	Place string `json:"place"` // store, journal, intake, aside or rejects
	Read  int    `json:"read"`
	Whole bool   `json:"whole"` // nothing was left out
	Error string `json:"error,omitempty"`
}

// WhyQuery asks for pushes that no instance has accepted. Empty fields select all.
type WhyQuery struct {
	Prefix, ID, Topic, Key string
	Most                   int // how many pushes to read
	// See reports whether the caller may see the messages of a topic; nil: of every topic.
	See func(topic string) bool
}
