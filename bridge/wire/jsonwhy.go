package wire

// WhyList is the answer to the question where messages are, and why.
type WhyList struct {
	Messages []Info     `json:"messages"` // without headers and bodies
	Pushes   []WhyPush  `json:"pushes,omitempty"`
	Looked   []WhyPlace `json:"looked"`
}

// WhyPush is a push that is no message: nobody has read it, or it was rejected.
type WhyPush struct {
	ID    string `json:"id,omitempty"`
	UID   string `json:"uid,omitempty"`
	Key   string `json:"key,omitempty"`
	Topic string `json:"topic"`
	At    string `json:"at"` // when NATS stored it
	Why   *Why   `json:"why"`
}

// WhyPlace says how far a place was looked at.
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
}
