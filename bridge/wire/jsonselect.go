package wire

// Selection picks waiting messages for an operation on many.
type Selection struct {
	Topic    string // a pattern; empty: all
	Key      string
	HasKey   bool
	From, To When // bounds of due, both inclusive; a duration counts from now on
	HasFrom  bool
	HasTo    bool
	DryRun   bool
	All      bool // said aloud, since nothing else is
}

// DecodeSelection reads which messages a cancel of many means:
//
//	{"topic":"orders.>", "key":"customer-9", "due_from":"2030-01-31T08:00:00Z", "due_to":"2h", "dry_run":true}
//
// A selection without topic, key and due bound is refused unless it says "all":true. Bounds are times, or durations
// from now.
func DecodeSelection(data []byte) (Selection, error) {
	var s Selection
	err := decode(data, "a selection", pickFields, s.read)
	if err == nil {
		err = s.check()
	}
	if err != nil {
		return Selection{}, err
	}
	return s, nil
}

// DecodeRescheduleMany reads a selection and one of delay, at and shift.
func DecodeRescheduleMany(data []byte) (s Selection, e Edit, err error) {
	err = decode(data, "a reschedule of many", join(pickFields, whenFields), func(f *fields, field string) {
		s.read(f, field)
		e.read(f, field)
	})
	if err == nil {
		err = s.check()
	}
	if err == nil {
		err = e.checkWhen()
	}
	if err == nil && !e.HasAt && !e.HasDelay && !e.HasShift {
		err = &Error{Word: WordNoChange, Field: "reschedule",
			Detail: "changes nothing; want one of delay, at and shift"}
	}
	if err != nil {
		return Selection{}, Edit{}, err
	}
	return s, e, nil
}

func (s *Selection) read(f *fields, field string) {
	switch field {
	case FieldTopic:
		s.Topic = f.pattern()
	case FieldKey:
		s.Key, s.HasKey = f.key()
	case FieldDueFrom:
		s.From, s.HasFrom = f.when(field), true
	case FieldDueTo:
		s.To, s.HasTo = f.when(field), true
	case FieldAll:
		s.All = f.bool(field)
	case FieldDryRun:
		s.DryRun = f.bool(field)
	}
}

func (s *Selection) check() error {
	if s.Topic == "" && !s.HasKey && !s.HasFrom && !s.HasTo && !s.All {
		return &Error{Word: WordSelection, Field: "selection",
			Detail: `is empty; want a topic, a key or a bound of due, or "all":true for every message`}
	}
	return checkRange(s.From, s.To, s.HasFrom && s.HasTo, FieldDueFrom, FieldDueTo)
}

// checkRange refuses bounds that nothing can lie between, where that needs no clock.
func checkRange(from, to When, both bool, fieldFrom, fieldTo string) error {
	if both && from.Relative == to.Relative && (from.Span > to.Span || from.At.After(to.At)) {
		return invalid(fieldFrom, "lies after "+fieldTo)
	}
	return nil
}

// pattern reads a pattern of subjects.
func (f *fields) pattern() string {
	topic, ok := f.string(FieldTopic)
	if ok {
		f.refuseErr(CheckPattern(topic))
	}
	return topic
}

// key reads a key that is held to a message's own, which may be empty.
func (f *fields) key() (string, bool) {
	key, ok := f.string(FieldKey)
	if ok && key != "" {
		f.refuseErr(CheckKey(key))
	}
	return key, ok
}
