package ops

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/tarry-mq/tarry/bridge/wire"
)

// scanner reads JSON (RFC 8259) strictly, in one pass and without reflection: it reads a batch of a thousand pushes
// faster than Redis can store it. It refuses input that encoding/json would repair: a lone surrogate, bytes that are
// not UTF-8. The first error in the JSON itself stops it for good; callers check bad once, at the end.
type scanner struct {
	b   []byte
	i   int
	bad *wire.Error
}

// maxDepth is the maximum nesting of a skipped value.
const maxDepth = 32

func (s *scanner) fail(what string) {
	if s.bad == nil {
		s.bad = &wire.Error{Word: WordJSON, Field: "request",
			Detail: fmt.Sprintf("is not valid JSON: %s at byte %d", what, s.i)}
	}
	s.i = len(s.b) // nothing more is read
}

// next skips blanks and returns the next byte without consuming it, or 0 at the end.
func (s *scanner) next() byte {
	for s.i < len(s.b) {
		switch c := s.b[s.i]; c {
		case ' ', '\t', '\r', '\n':
			s.i++
		default:
			return c
		}
	}
	return 0
}

// take skips blanks and the byte c, if that is next.
func (s *scanner) take(c byte) bool {
	if s.next() != c || s.i >= len(s.b) {
		return false
	}
	s.i++
	return true
}

func (s *scanner) need(c byte) bool {
	if s.take(c) {
		return true
	}
	s.fail(fmt.Sprintf("%q is missing", c))
	return false
}

// end refuses anything that follows the one value of a request.
func (s *scanner) end() {
	if s.next(); s.bad == nil && s.i < len(s.b) {
		s.fail("more text")
	}
}

// object calls field with every name; field must read the value.
func (s *scanner) object(field func(name []byte)) {
	if !s.need('{') || s.take('}') {
		return
	}
	for s.bad == nil {
		if s.next() != '"' {
			s.fail("a field name is missing")
			return
		}
		name, _ := s.text()
		if s.need(':') {
			field(name)
		}
		if s.bad != nil || s.take('}') {
			return
		}
		s.need(',')
	}
}

// array calls element before every element; element must read it.
func (s *scanner) array(element func()) {
	if !s.need('[') || s.take(']') {
		return
	}
	for s.bad == nil {
		element()
		if s.bad != nil || s.take(']') {
			return
		}
		s.need(',')
	}
}

// text reads a string. The result shares the input if nothing is escaped; shared reports whether it does.
func (s *scanner) text() (value []byte, shared bool) {
	if !s.need('"') {
		return nil, false
	}
	start, ascii := s.i, true
	for s.i += plain(s.b[s.i:]); s.i < len(s.b); s.i++ {
		switch c := s.b[s.i]; {
		case c == '"':
			value = s.b[start:s.i:s.i]
			if !ascii && !utf8.Valid(value) {
				s.fail("bytes that are not UTF-8")
				return nil, false
			}
			s.i++
			return value, true
		case c == '\\':
			return s.escaped(start), false
		case c < ' ':
			s.fail("a control character in a string")
			return nil, false
		case c >= utf8.RuneSelf:
			ascii = false
		}
	}
	s.fail("a string without end")
	return nil, false
}

// plain returns a number of bytes at the start of b that are certainly neither quote, backslash, control character nor
// non-ASCII. It examines eight bytes at a time: bodies make up most of a request, and examining single bytes took half
// the time of reading it.
func plain(b []byte) int {
	const each, high = 0x0101010101010101, 0x8080808080808080
	i := 0
	for ; i+8 <= len(b); i += 8 {
		v := binary.LittleEndian.Uint64(b[i:])
		// Subtracting borrows into the high bit of every byte that is too small: below a blank, or equal (zero after
		// the xor).
		if (v|(v-each*' ')|((v^each*'"')-each)|((v^each*'\\')-each))&high != 0 {
			break
		}
	}
	return i
}

// escaped continues text from the first backslash.
func (s *scanner) escaped(start int) []byte {
	out := append(make([]byte, 0, s.i-start+64), s.b[start:s.i]...)
	for s.i < len(s.b) {
		n := plain(s.b[s.i:])
		out = append(out, s.b[s.i:s.i+n]...)
		if s.i += n; s.i >= len(s.b) {
			break
		}
		c := s.b[s.i]
		s.i++
		switch {
		case c == '"':
			if !utf8.Valid(out) {
				s.fail("bytes that are not UTF-8")
				return nil
			}
			return out
		case c < ' ':
			s.fail("a control character in a string")
			return nil
		case c != '\\':
			out = append(out, c)
			continue
		}
		if s.i >= len(s.b) {
			break
		}
		c = s.b[s.i]
		s.i++
		switch c {
		case '"', '\\', '/':
			out = append(out, c)
		case 'u':
			r, ok := s.unicode()
			if !ok {
				s.fail("a broken \\u escape")
				return nil
			}
			out = utf8.AppendRune(out, r)
		default:
			at := bytes.IndexByte([]byte("bfnrt"), c)
			if at < 0 {
				s.fail("an unknown escape")
				return nil
			}
			out = append(out, "\b\f\n\r\t"[at])
		}
	}
	s.fail("a string without end")
	return nil
}

// unicode reads what follows \u: four digits, or the two halves of a pair.
func (s *scanner) unicode() (rune, bool) {
	r, ok := s.hex4()
	if !ok || !utf16.IsSurrogate(r) {
		return r, ok
	}
	if s.i+2 > len(s.b) || s.b[s.i] != '\\' || s.b[s.i+1] != 'u' {
		return 0, false
	}
	s.i += 2
	low, ok := s.hex4()
	r = utf16.DecodeRune(r, low)
	return r, ok && r != utf8.RuneError
}

func (s *scanner) hex4() (rune, bool) {
	if s.i+4 > len(s.b) {
		return 0, false
	}
	var r rune
	for range 4 {
		c := wire.ToLower(s.b[s.i])
		s.i++
		switch {
		case wire.IsDigit(c):
			r = r<<4 | rune(c-'0')
		case 'a' <= c && c <= 'f':
			r = r<<4 | rune(c-'a'+10)
		default:
			return 0, false
		}
	}
	return r, true
}

// number reads a number and returns its text.
func (s *scanner) number() []byte {
	s.next()
	start := s.i
	digits := func() bool {
		from := s.i
		for s.i < len(s.b) && wire.IsDigit(s.b[s.i]) {
			s.i++
		}
		return s.i > from
	}
	accept := func(set string) bool {
		if s.i < len(s.b) && bytes.IndexByte([]byte(set), s.b[s.i]) >= 0 {
			s.i++
			return true
		}
		return false
	}
	accept("-")
	first := s.i
	ok := digits() && (s.b[first] != '0' || s.i == first+1)
	if ok && accept(".") {
		ok = digits()
	}
	if ok && accept("eE") {
		accept("+-")
		ok = digits()
	}
	if !ok {
		s.fail("a broken number")
		return nil
	}
	return s.b[start:s.i]
}

// word reads true, false or null.
func (s *scanner) word() {
	for _, w := range [...]string{"true", "false", "null"} {
		if bytes.HasPrefix(s.b[s.i:], []byte(w)) {
			s.i += len(w)
			return
		}
	}
	s.fail("an unknown word")
}

// null skips a null, which means an absent value.
func (s *scanner) null() bool {
	if s.next() != 'n' {
		return false
	}
	s.word()
	return true
}

// skip reads a value of any kind, checking only its syntax.
func (s *scanner) skip(depth int) {
	if depth > maxDepth {
		s.fail(fmt.Sprintf("more than %d levels", maxDepth))
		return
	}
	switch c := s.next(); {
	case c == '{':
		s.object(func([]byte) { s.skip(depth + 1) })
	case c == '[':
		s.array(func() { s.skip(depth + 1) })
	case c == '"':
		s.text()
	case c == '-' || wire.IsDigit(c):
		s.number()
	case s.i >= len(s.b):
		s.fail("a value is missing")
	default:
		s.word()
	}
}

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
	Push wire.Push
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
	)
	f := fields{s: &s, name: "messages"}
	if s.next() != '{' {
		s.fail(`want {"messages":[...]}`)
	}
	s.object(func(name []byte) {
		switch {
		case string(name) != "messages":
			f.refuse(&wire.Error{Word: WordUnknownField, Field: wire.Quote(string(name)),
				Detail: `is not a field of a batch; it has "messages" alone`})
			s.skip(1)
		case given:
			f.refuse(&wire.Error{Word: WordRepeatedField, Field: "messages", Detail: "are given more than once"})
			s.skip(1)
		case s.next() != '[':
			f.refuse(&wire.Error{Word: WordJSON, Field: "messages", Detail: "is not a list"})
			s.skip(1)
		default:
			given = true
			items = make([]PushItem, 0, min(MaxBatch, len(data)/shortest+1))
			f.list(MaxBatch, func() { items = append(items, s.push(prefix)) })
		}
	})
	s.end()
	switch {
	case s.bad != nil:
		return nil, s.bad
	case f.bad != nil:
		return nil, f.bad
	case !given || len(items) == 0:
		return nil, &wire.Error{Word: WordJSON, Field: "messages",
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
