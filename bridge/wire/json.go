package wire

import "fmt"

// The errors of a JSON request beyond those of a push's options.
const (
	WordJSON          = "invalid_json"
	WordUnknownField  = "unknown_field"
	WordRepeatedField = "repeated_field"
	WordBody          = "invalid_body"
)

// MaxBatch is the maximum number of messages in a batch.
const MaxBatch = 1000

// shortest is the minimum size of a push in a batch, with its comma. It bounds the number of items to allocate in
// advance.
const shortest = len(`{"topic":"a","delay":0},`)

// PushItem is one push of a request: the push itself, or the reason for its refusal.
type PushItem struct {
	Push Push
	Body []byte // shares the request's memory if nothing had to be unescaped
	Err  error  // an *Error
}

// DecodePush reads one push from its JSON form:
//
//	{"topic":"orders.created", "delay":"20m" | 1200000, "at":"2030-01-31T08:00:00Z" | 1896076800000,
//	 "body":"text" | "body_base64":"..." | "body_json":any value, "headers":{"name":"value" | ["value", ...]},
//	 "id", "key", "on_duplicate", "deliver", "lease", "reason": "text", "priority", "attempt": 1, "ttl",
//	 "max_wait":"1h" | 3600000, "retry":"0,2m,10m*5~20%" | [0, "2m", 600000]}
//
// The topic and exactly one of delay and at are required; all other fields are optional. With an attempt of 2 or more,
// delay and at may both be absent: the push then waits according to its schedule of retries. A null is the same as an
// absent field, except for body_json, where it is the body, four bytes. A push with an unknown, repeated or not yet
// supported field is refused. The caller checks sizes and the ten-year limit (CheckSize, CheckDue).
func DecodePush(data []byte, prefix string) PushItem {
	s := scanner{b: data}
	item := s.push(prefix)
	if s.end(); s.bad != nil {
		return PushItem{Err: s.bad}
	}
	return item
}

// DecodeBatch reads {"messages":[push, ...]}, at most MaxBatch of them. A refused push keeps its position in the
// result; the error concerns the request as a whole.
func DecodeBatch(data []byte, prefix string) ([]PushItem, error) {
	var (
		s     = scanner{b: data}
		items []PushItem
		given bool
		bad   *Error
	)
	refuse := func(e *Error) {
		if bad == nil {
			bad = e
		}
	}
	if s.next() != '{' {
		s.fail(`want {"messages":[...]}`)
	}
	s.object(func(name []byte) {
		switch {
		case string(name) != "messages":
			refuse(&Error{Word: WordUnknownField, Field: quote(string(name)),
				Detail: `is not a field of a batch; it has "messages" alone`})
			s.skip(1)
		case given:
			refuse(&Error{Word: WordRepeatedField, Field: "messages", Detail: "are given more than once"})
			s.skip(1)
		case s.next() != '[':
			refuse(&Error{Word: WordJSON, Field: "messages", Detail: "is not a list"})
			s.skip(1)
		default:
			given = true
			items = make([]PushItem, 0, min(MaxBatch, len(data)/shortest+1))
			s.array(func() {
				if len(items) >= MaxBatch {
					refuse(&Error{Word: WordTooLarge, Field: "messages",
						Detail: fmt.Sprintf("are more than the limit of %d", MaxBatch)})
					s.skip(2)
					return
				}
				items = append(items, s.push(prefix))
			})
		}
	})
	s.end()
	switch {
	case s.bad != nil:
		return nil, s.bad
	case bad != nil:
		return nil, bad
	case !given || len(items) == 0:
		return nil, &Error{Word: WordJSON, Field: "messages",
			Detail: fmt.Sprintf("are missing; a batch needs 1 to %d", MaxBatch)}
	}
	return items, nil
}

// IsBatch reports whether a request is a batch rather than one push, judging by the name of its first field.
func IsBatch(data []byte) bool {
	s := scanner{b: data}
	if !s.need('{') || s.next() != '"' {
		return false
	}
	name, _ := s.text()
	return string(name) == "messages"
}
