package publish

import (
	"cmp"
	"crypto/rand"
	"encoding/binary"
	"slices"
	"strconv"

	"github.com/nats-io/nats.go"

	"github.com/tarry-mq/tarry/bridge/wire"
	"github.com/tarry-mq/tarry/scheduler/message"
)

// headerWriter builds the headers of delivered messages, one message at a time, in the same map. nats.go copies what it
// publishes, so the map of the last message may be overwritten.
type headerWriter struct {
	// space ends every Nats-Msg-Id; it is empty in the default namespace. Two namespaces may assign equal uids and
	// deliver into one stream, whose duplicate window would swallow the second message.
	space  string
	header nats.Header
	own    [8]string // the values of tarry's own headers
	values []string  // the values of the user's headers
	due    []byte
	retry  message.Retry // the schedule whose text is in own
	plain  bool          // the map holds only the five headers that every message has
	random []byte        // the rest of pool
	pool   [256]byte
}

const (
	ownID = iota
	ownDue
	ownAttempt
	ownMsgID
	ownOnce
	ownKey
	ownRetry
	ownSubject
)

// msgIDSpace returns the suffix that namespaces other than the default add to a uid in Nats-Msg-Id.
func msgIDSpace(namespace string) string {
	if namespace == "" || namespace == defaultNamespace {
		return ""
	}
	return "@" + namespace
}

const defaultNamespace = "default"

// write returns the headers of m, valid until the next call. A message may leave on another subject than its topic,
// that of a partition. Tarry-Subject then names the topic, to which a consumer sends the message back. retry is the
// schedule in the headers. If the message's own headers have a Tarry-Subject, that one is kept: a copy of an ended
// message names that message's topic.
func (w *headerWriter) write(m *message.Message, subject string, retry *message.Retry) nats.Header {
	w.own[ownID] = cmp.Or(m.ID, string(m.UID))
	w.due = strconv.AppendInt(w.due[:0], int64(m.Due), 10)
	if string(w.due) != w.own[ownDue] { // many messages are due at the same instant
		w.own[ownDue] = string(w.due)
	}
	w.own[ownAttempt] = strconv.FormatUint(uint64(m.Attempt), 10)
	w.own[ownMsgID] = string(m.UID) + w.space
	w.own[ownOnce] = w.secret()
	plain := m.Key == "" && len(m.Headers) == 0 && retry.Empty() && subject == m.Topic
	if w.plain && plain {
		return w.header
	}
	if w.header == nil {
		w.header = make(nats.Header, 8)
	}
	clear(w.header)
	w.plain = plain
	w.user(m.Headers)
	for i, name := range [...]string{wire.HeaderID, wire.HeaderDue, wire.HeaderAttempt, wire.HeaderMsgID,
		wire.HeaderOnce} {
		w.header[name] = w.own[i : i+1 : i+1]
	}
	if m.Key != "" {
		w.own[ownKey] = m.Key
		w.header[wire.HeaderKey] = w.own[ownKey : ownKey+1 : ownKey+1]
	}
	if !retry.Empty() {
		// Many messages share a schedule.
		if retry.Jitter != w.retry.Jitter || retry.None != w.retry.None || !slices.Equal(retry.Delays, w.retry.Delays) {
			w.retry, w.own[ownRetry] = *retry, wire.Retry(*retry).String()
		}
		w.header[wire.HeaderRetry] = w.own[ownRetry : ownRetry+1 : ownRetry+1]
	}
	if _, copied := w.header[wire.HeaderSubject]; subject != m.Topic && !copied {
		w.own[ownSubject] = m.Topic
		w.header[wire.HeaderSubject] = w.own[ownSubject : ownSubject+1 : ownSubject+1]
	}
	return w.header
}

// secret returns 64 random bits.
func (w *headerWriter) secret() string {
	if len(w.random) == 0 {
		w.random = w.pool[:]
		_, _ = rand.Read(w.random) // never fails
	}
	n := binary.BigEndian.Uint64(w.random)
	w.random = w.random[8:]
	return strconv.FormatUint(n, 36)
}

func (w *headerWriter) user(headers []message.Header) {
	if cap(w.values) < len(headers) {
		w.values = make([]string, 0, len(headers))
	}
	w.values = w.values[:0]
	for i := 0; i < len(headers); {
		name, start := headers[i].Name, len(w.values)
		for ; i < len(headers) && headers[i].Name == name; i++ {
			w.values = append(w.values, headers[i].Value)
		}
		run := w.values[start:len(w.values):len(w.values)]
		if earlier, ok := w.header[name]; ok { // not sorted: the name occurred before
			run = append(earlier, run...)
		}
		w.header[name] = run
	}
}
