// Code generated from bridge/wire by go generate; DO NOT EDIT.

package wire

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Header is one user header as the producer wrote it. A name may occur more than once.
type Header struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// HeaderList collects user headers. Maps have no order, so of several errors it keeps the one for the lowest name.
type HeaderList struct {
	list []Header
	Size int // of what was added, as NATS counts it
	bad  *Error
	name string // of the bad header
}

// Refuse keeps the error of a header, or of the lowest name if name is empty.
func (l *HeaderList) Refuse(name string, e *Error) {
	if l.bad == nil || name < l.name {
		l.bad, l.name = e, name
	}
}

// Add adds the values of a header, if no rule forbids it.
func (l *HeaderList) Add(name string, values []string) {
	switch {
	case !isToken(name):
		l.Refuse(name, &Error{Word: WordHeader, Field: FieldHeaders,
			Detail: "contain the name " + Quote(name) + "; a name needs letters, digits and !#$%&'*+-.^_`|~"})
		return
	case HasPrefixFold(name, "nats-"):
		l.Refuse(name, &Error{Word: WordHeader, Field: QuoteName(name),
			Detail: "is not carried over: Nats-* headers change what the server does with a message"})
		return
	}
	for _, v := range values {
		if p := ValueProblem(v); p != "" {
			l.Refuse(name, &Error{Word: WordHeader, Field: QuoteName(name), Detail: p})
			return
		}
		l.Size += len(name) + len(v) + HeaderLine
		l.list = append(l.list, Header{Name: name, Value: v})
	}
}

// Finish returns the headers by name, or the error.
func (l *HeaderList) Finish() ([]Header, error) {
	switch {
	case l.bad != nil:
		return nil, l.bad
	case len(l.list) == 0:
		return nil, nil
	case l.Size+headerFrame > MaxHeaders:
		return nil, &Error{Word: WordTooLarge, Field: FieldHeaders,
			Detail: fmt.Sprintf("take %d bytes, the limit is %d", l.Size+headerFrame, MaxHeaders)}
	}
	slices.SortStableFunc(l.list, compareNames)
	return l.list, nil
}

// compareNames orders names without regard to case, and names that differ only in case by their bytes, so that the
// order is total.
func compareNames(a, b Header) int {
	if c := foldCompare(a.Name, b.Name); c != 0 {
		return c
	}
	return strings.Compare(a.Name, b.Name)
}

const (
	// HeaderLine is what a header takes beside its name and its value.
	HeaderLine  = len(": \r\n")
	headerFrame = len("NATS/1.0\r\n\r\n")
)

// DeliveredSize returns the largest size that the delivered message can have on the wire, headers and body, as
// max_payload counts.
func (p *Push) DeliveredSize(body int) int {
	id := cmp.Or(len(p.ID), maxUIDText)
	size := headerFrame + body
	size += len(HeaderID) + id + HeaderLine
	size += len(HeaderMsgID) + maxUIDText + HeaderLine
	size += len(HeaderDue) + len("253370764800000") + HeaderLine
	size += len(HeaderAttempt) + len("65535") + HeaderLine
	size += len(HeaderOnce) + len("3w5e11264sgsf") + HeaderLine
	size += len(HeaderSubject) + len(p.Topic) + HeaderLine // if it leaves on another subject
	retry := RetryRoom                                     // the topic may set a schedule
	if !p.Retry.Empty() {
		retry = len(p.Retry.String())
	}
	size += len(HeaderRetry) + retry + HeaderLine
	if p.Reason != "" {
		size += len(HeaderReason) + len(p.Reason) + HeaderLine
	}
	if p.Key != "" {
		size += len(HeaderKey) + len(p.Key) + HeaderLine
	}
	for _, h := range p.Headers {
		size += len(h.Name) + len(h.Value) + HeaderLine
	}
	return size
}

// CheckLimit refuses a push whose body and user headers together exceed the limit of the component that accepts it.
func (p *Push) CheckLimit(body, limit int) error {
	size := body
	for _, h := range p.Headers {
		size += len(h.Name) + len(h.Value) + HeaderLine
	}
	if size > limit {
		return &Error{Word: WordTooLarge, Field: FieldBody,
			Detail: fmt.Sprintf("and headers take %d bytes, the limit is %d", size, limit)}
	}
	return nil
}

// HeadRoom is how much of the server's max_payload stays free for the headers that tarry adds to a push. A message is
// published in several forms: as a push by tag, as a delivery, as the retry that a consumer sends back, as a reject.
// Each has to fit, so every way into tarry has the same limit.
const HeadRoom = 4096

// CheckSize refuses a push that is too large for the server's max_payload, which is 0 if it is not known. The limit is
// below what the same producer may publish itself: HeadRoom stays free, and the delivery has to fit with the headers
// that tarry adds.
func (p *Push) CheckSize(body int, maxPayload int64) error {
	if maxPayload > HeadRoom {
		if err := p.CheckLimit(body, int(maxPayload)-HeadRoom); err != nil {
			return err
		}
	}
	if size := p.DeliveredSize(body); maxPayload > 0 && int64(size) > maxPayload {
		return &Error{Word: WordTooLarge, Field: FieldBody,
			Detail: fmt.Sprintf("of %d bytes needs up to %d with its headers when delivered, the server's "+
				"max_payload is %d", body, size, maxPayload)}
	}
	return nil
}

// CheckStatus refuses a Status header beside an empty body. Client libraries take that message for a status message
// from the server ("no responders", "no messages"), so no consumer would ever see it.
func (p *Push) CheckStatus(body int) error {
	if body > 0 {
		return nil
	}
	for _, h := range p.Headers {
		if len(h.Name) == len(headerStatus) && foldCompare(h.Name, headerStatus) == 0 {
			return &Error{Word: WordHeader, Field: h.Name,
				Detail: "cannot be combined with an empty body: NATS clients would mistake the message for a " +
					"server status, and no consumer would see it"}
		}
	}
	return nil
}

// ValueProblem returns the end of the sentence "<header> ...", or "".
func ValueProblem(v string) string {
	for i := range len(v) {
		if v[i] < ' ' || v[i] == 0x7f {
			return "contains a control character"
		}
	}
	if !utf8.ValidString(v) {
		return "is not valid UTF-8"
	}
	return ""
}

// IsHeaderName reports whether a client can send a header of this name and read it back.
func IsHeaderName(name string) bool { return isToken(name) }

// isToken accepts the names that every NATS client writes and reads back unchanged: those of HTTP (RFC 9110, token).
func isToken(name string) bool {
	for i := range len(name) {
		c := name[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', IsDigit(c):
		case strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0:
		default:
			return false
		}
	}
	return name != ""
}

// QuoteName shortens a header's name for an error. A name that is no token is quoted.
func QuoteName(name string) string {
	if isToken(name) && len(name) <= 64 {
		return name
	}
	return Quote(name)
}

// HasPrefixFold reports whether s begins with lower, ignoring ASCII case; lower must be lower case.
func HasPrefixFold(s, lower string) bool {
	if len(s) < len(lower) {
		return false
	}
	for i := range len(lower) { // half the time of strings.EqualFold, for every header of every push
		if ToLower(s[i]) != lower[i] {
			return false
		}
	}
	return true
}

func foldCompare(a, b string) int {
	for i := range min(len(a), len(b)) {
		if c := cmp.Compare(ToLower(a[i]), ToLower(b[i])); c != 0 {
			return c
		}
	}
	return cmp.Compare(len(a), len(b))
}

// ToLower returns a letter of ASCII in lower case, and any other byte as it is.
func ToLower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c + ('a' - 'A')
	}
	return c
}
