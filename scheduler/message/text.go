package message

import (
	"fmt"
	"slices"
	"time"
)

// The forms of times, states and kinds in JSON, as the answers of the API have them.

// MarshalText returns m in RFC 3339, UTC, with milliseconds. 0, which is no time, is the empty text.
func (m Milli) MarshalText() ([]byte, error) {
	if m == 0 {
		return nil, nil
	}
	return []byte(m.Time().Format("2006-01-02T15:04:05.000Z")), nil
}

// UnmarshalText reads what MarshalText writes, and any other time of RFC 3339. A fraction of a millisecond rounds up.
func (m *Milli) UnmarshalText(text []byte) error {
	if *m = 0; len(text) == 0 {
		return nil
	}
	t, err := time.Parse(time.RFC3339, string(text))
	*m = CeilMilli(t)
	if year := m.Time().Year(); err != nil || year < 0 || year > 9999 {
		return fmt.Errorf("%.40q: want a time as in 2030-01-31T08:00:00Z", text)
	}
	return nil
}

// MarshalText returns the state's word.
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads a state's word. A word of a later version gives a state that is not Valid.
func (s *State) UnmarshalText(text []byte) error {
	for *s = 0; s.Valid() && s.String() != string(text); *s++ {
	}
	return nil
}

// MarshalText returns the kind's word.
func (k Kind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText reads a kind's word. A word of a later version gives a kind that is not Valid.
func (k *Kind) UnmarshalText(text []byte) error {
	i := slices.Index(kindWords[:], string(text))
	if *k = Kind(i); i < 0 {
		*k = Kind(len(kindWords))
	}
	return nil
}
