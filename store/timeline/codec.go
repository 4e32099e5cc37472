package timeline

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/tarry-mq/tarry/scheduler"
	"github.com/tarry-mq/tarry/scheduler/message"
)

// A packed message, big-endian:
//
//	 0     1  version, 1
//	 1     1  flags: 1 named (an id and a digest follow), 2 a TTL, 4 an origin, 8 a retry schedule follows,
//	          16 consumers pull it, 32 a lease follows, 64 one of its key at a time
//	 2     1  priority
//	 3     8  due, unix ms
//	11     2  length of the meta part: everything up to the headers
//	13     4  attempt
//	17        topic, id, key: a length byte and the text each
//	          digest, 16 bytes, when named
//	          TTL in ms, 8 bytes, when flagged
//	          origin, the 18 bytes of a uid, when flagged
//	          retry schedule, when flagged: jitter, a byte; uvarint count, 0 for no retry, and uvarint ms each
//	          lease in ms, 4 bytes, when flagged
//	          headers: uvarint count, then uvarint length and text of name and value each
//	          body: the rest
//
// The record of an end:
//
//	 0     1  version, 2
//	 1     1  state
//	 2     1  flags: 1 uncertain, and 2 the meta part follows or 4 the whole message follows
//	 3     8  when it ended, unix ms
//	11     8  due, unix ms
//	19     4  version
//	23        cause: a length byte and the cause, below
//	          the whole packed message (dead ones), or the meta part without origin, retry schedule and lease:
//	          its topic shows whether a push with the same uid is a repetition, and who may see the
//	          message (32 to 48 bytes of Redis 7.0 with topics of 13 to 17 bytes, against a record
//	          without it)
//
// A cause is empty, or consists of its kind (message.Kind, a byte), a length byte and the uid of the message that it
// names, if any, and a reason for people: the remaining bytes, empty if the kind has its own words.
//
// The scripts read version, flags, priority, due, the meta length, attempt and topic, and find digest and origin by the
// three lengths; they build the record of a cancel themselves, and set priority, due, attempt and origin of what is
// amended or merged. The cause of an end is mostly empty; its kind lets a repeated call recognize that it has already
// run. A message of 256 bytes with a short topic stays below the 320 byte class of Redis's allocator.
const (
	packedVersion = 1
	endedVersion  = 2

	flagNamed  = 1
	flagTTL    = 2
	flagOrigin = 4
	flagRetry  = 8
	flagPull   = 16
	flagLease  = 32
	flagSerial = 64
	knownFlags = 2*flagSerial - 1

	endUncertain = 1
	endMeta      = 2
	endWhole     = 4
	endRefused   = 8 // behind the cause stands how many refusals the mark counted
	refusedLen   = 4

	// The first byte of every form is its number. A newer tarry may write numbers up to newestForm; any other unknown
	// first byte is damage.
	newestForm = 31

	fixedLen    = 17
	endFixedLen = 23
	maxText     = 255
)

// unknown returns the reason why a form cannot be read. last is the last known form.
func unknown(form, last byte) error {
	if form > last && form <= newestForm {
		return scheduler.ErrNewer
	}
	return scheduler.ErrUnreadable
}

// pack appends the message's packed form.
func pack(b []byte, m *message.Message) ([]byte, error) {
	b, err := packMeta(b, m)
	if err != nil {
		return nil, err
	}
	b = binary.AppendUvarint(b, uint64(len(m.Headers)))
	for _, h := range m.Headers {
		b = binary.AppendUvarint(b, uint64(len(h.Name)))
		b = append(b, h.Name...)
		b = binary.AppendUvarint(b, uint64(len(h.Value)))
		b = append(b, h.Value...)
	}
	return append(b, m.Body...), nil
}

// packMeta appends the meta part of a message's packed form: everything before its headers.
func packMeta(b []byte, m *message.Message) ([]byte, error) {
	if len(m.Topic) > maxText || len(m.ID) > maxText || len(m.Key) > maxText {
		return nil, fmt.Errorf("pack %s: topic, id and key are limited to %d bytes", m.UID, maxText)
	}
	var flags byte
	if m.ID != "" {
		flags |= flagNamed
	}
	if m.TTL > 0 {
		flags |= flagTTL
	}
	if m.Origin != "" {
		flags |= flagOrigin
	}
	if !m.Retry.Empty() {
		flags |= flagRetry
	}
	if m.Pull {
		flags |= flagPull
	}
	if m.Lease > 0 {
		flags |= flagLease
	}
	if m.Serial {
		flags |= flagSerial
	}
	start := len(b)
	b = append(b, packedVersion, flags, m.Priority)
	b = binary.BigEndian.AppendUint64(b, uint64(m.Due))
	b = append(b, 0, 0) // the meta length, set below
	b = binary.BigEndian.AppendUint32(b, m.Attempt)
	for _, s := range [...]string{m.Topic, m.ID, m.Key} {
		b = append(b, byte(len(s)))
		b = append(b, s...)
	}
	if flags&flagNamed != 0 {
		b = append(b, m.Digest[:]...)
	}
	if flags&flagTTL != 0 {
		b = binary.BigEndian.AppendUint64(b, uint64((m.TTL+time.Millisecond-1)/time.Millisecond))
	}
	if flags&flagOrigin != 0 {
		if len(m.Origin) != message.UIDLen {
			return nil, fmt.Errorf("pack %s: origin %.40q", m.UID, m.Origin)
		}
		b = append(b, m.Origin...)
	}
	if flags&flagRetry != 0 {
		b = append(b, m.Retry.Jitter)
		b = binary.AppendUvarint(b, uint64(len(m.Retry.Delays)))
		for _, d := range m.Retry.Delays {
			b = binary.AppendUvarint(b, uint64(max(d, 0)/time.Millisecond))
		}
	}
	if flags&flagLease != 0 {
		b = binary.BigEndian.AppendUint32(b, uint32(m.Lease/time.Millisecond))
	}
	if len(b)-start > math.MaxUint16 {
		return nil, fmt.Errorf("pack %s: %d retries are too many", m.UID, len(m.Retry.Delays))
	}
	binary.BigEndian.PutUint16(b[start+11:], uint16(len(b)-start))
	return b, nil
}

// unpack reads a packed message. If the record holds only the meta part, headers and body stay empty.
func unpack(uid message.UID, s string) (*message.Message, error) {
	r := reader{s: s}
	if version := r.byte(); version != packedVersion {
		return nil, fmt.Errorf("%w: message %s: version %d", unknown(version, amendedVersion), uid, version)
	}
	flags := r.byte()
	if flags > knownFlags {
		return nil, fmt.Errorf("%w: message %s: flags %b", scheduler.ErrNewer, uid, flags)
	}
	m := &message.Message{UID: uid, Priority: r.byte(), Due: message.Milli(r.uint64()),
		Pull: flags&flagPull != 0, Serial: flags&flagSerial != 0}
	meta := int(r.uint16())
	m.Attempt = r.uint32()
	m.Topic, m.ID, m.Key = r.text(int(r.byte())), r.text(int(r.byte())), r.text(int(r.byte()))
	if flags&flagNamed != 0 {
		copy(m.Digest[:], r.text(len(m.Digest)))
	}
	if flags&flagTTL != 0 {
		m.TTL = r.millis(r.uint64())
	}
	if flags&flagOrigin != 0 {
		m.Origin = message.UID(r.text(message.UIDLen))
		r.bad = r.bad || !message.IsUID(string(m.Origin))
	}
	if flags&flagRetry != 0 {
		m.Retry.Jitter = r.byte()
		n := r.uvarint()
		if n > len(s)-r.at || n == 0 && m.Retry.Jitter > 0 {
			r.bad, n = true, 0
		}
		if m.Retry.None = n == 0; n > 0 {
			m.Retry.Delays = make([]time.Duration, n)
		}
		for i := range m.Retry.Delays {
			m.Retry.Delays[i] = r.millis(r.uvarint64())
		}
	}
	if flags&flagLease != 0 {
		m.Lease = time.Duration(r.uint32()) * time.Millisecond
	}
	if r.bad || r.at != meta {
		return nil, fmt.Errorf("%w: message %s: meta part of %d bytes", scheduler.ErrUnreadable, uid, meta)
	}
	if r.at == len(s) {
		return m, nil
	}
	n := r.uvarint()
	if n > len(s) {
		return nil, fmt.Errorf("%w: message %s: %d headers", scheduler.ErrUnreadable, uid, n)
	}
	if n > 0 {
		m.Headers = make([]message.Header, n)
		for i := range m.Headers {
			m.Headers[i] = message.Header{Name: r.text(r.uvarint()), Value: r.text(r.uvarint())}
		}
	}
	if r.bad {
		return nil, fmt.Errorf("%w: message %s: headers", scheduler.ErrUnreadable, uid)
	}
	if r.at < len(s) {
		m.Body = []byte(s[r.at:])
	}
	return m, nil
}

// packEnd returns the record of an end. Its version is one above those that the message's mark counts.
func packEnd(e *scheduler.End, now message.Milli) ([]byte, error) {
	return packEnded(e, now, e.Message.Mark.Changes+2)
}

// packEnded returns the record of an end at a version.
func packEnded(e *scheduler.End, now message.Milli, version uint32) ([]byte, error) {
	m := e.Message
	whole := e.State.Kept()
	flags := byte(endMeta)
	if whole {
		flags = endWhole
	}
	if e.Uncertain {
		flags |= endUncertain
	}
	cause := packCause(e.Kind, e.Other, e.Reason, e.Uncertain)
	if n := m.Mark.Refusals; n > 0 {
		flags |= endRefused
		cause = cmp.Or(cause[:min(len(cause), maxText-refusedLen)], "\x00\x00")
		cause += string(binary.BigEndian.AppendUint32(nil, n))
	}
	b := make([]byte, 0, endFixedLen+1+len(cause)+96)
	b = append(b, endedVersion, byte(e.State), flags)
	b = binary.BigEndian.AppendUint64(b, uint64(now))
	b = binary.BigEndian.AppendUint64(b, uint64(m.Due))
	b = binary.BigEndian.AppendUint32(b, version)
	b = append(b, byte(len(cause)))
	b = append(b, cause...)
	if whole {
		return pack(b, m)
	}
	if m.Origin != "" || !m.Retry.Empty() || m.Lease > 0 { // they serve deliveries only
		bare := *m
		bare.Origin, bare.Retry, bare.Lease = "", message.Retry{}, 0
		m = &bare
	}
	return packMeta(b, m)
}

// packCause returns a cause as records keep it, of at most maxText bytes.
func packCause(kind message.Kind, other message.UID, reason string, uncertain bool) string {
	if kind == message.KindPlain && other == "" && reason == "" {
		return ""
	}
	if reason == kind.Words(other, uncertain) {
		reason = ""
	}
	packed := string([]byte{byte(kind), byte(len(other))}) + string(other) + reason
	return packed[:min(len(packed), maxText)]
}

// cause reads a cause with its length byte, which also counts what stands behind it.
func (r *reader) cause(uncertain bool, behind int) (kind message.Kind, other message.UID, reason string) {
	packed := r.text(int(r.byte()) - behind)
	if packed == "" {
		return message.KindPlain, "", ""
	}
	in := reader{s: packed}
	kind, other = message.Kind(in.byte()), message.UID(in.text(int(in.byte())))
	reason = packed[in.at:]
	r.bad = r.bad || in.bad || !kind.Valid() || other != "" && !message.IsUID(string(other)) ||
		kind.Names() != (other != "")
	return kind, other, cmp.Or(reason, kind.Words(other, uncertain))
}

// unpackInfo reads a value of msg, live or ended. claimed and mark are read from the other keys.
func unpackInfo(uid message.UID, s string, claimed bool, mark string) (message.Info, error) {
	if len(s) == 0 {
		return message.Info{}, fmt.Errorf("%w: message %s: empty", scheduler.ErrUnreadable, uid)
	}
	if s[0] == packedVersion {
		m, err := unpack(uid, s)
		if err != nil {
			return message.Info{}, err
		}
		if m.Mark, err = unpackMark(mark); err != nil {
			return message.Info{}, fmt.Errorf("message %s: %w", uid, err)
		}
		info := message.Info{Message: *m, State: message.StateWaiting, Version: m.Version()}
		if claimed {
			info.State, info.Mark.Lane = message.StateInFlight, ""
		}
		return info, nil
	}
	if s[0] != endedVersion {
		return message.Info{}, fmt.Errorf("%w: message %s: version %d", unknown(s[0], amendedVersion), uid, s[0])
	}
	r := reader{s: s}
	version, state, flags := r.byte(), message.State(r.byte()), r.byte()
	info := message.Info{State: state, EndedAt: message.Milli(r.uint64())}
	due := message.Milli(r.uint64())
	info.Version = uint64(r.uint32())
	behind := 0
	if flags&endRefused != 0 {
		behind = refusedLen
	}
	info.Kind, info.Other, info.Reason = r.cause(flags&endUncertain != 0, behind)
	refusals := uint32(r.number(behind))
	if r.bad || !state.Ended() || info.Version == 0 {
		return message.Info{}, fmt.Errorf("%w: end of %s: version %d, state %d",
			scheduler.ErrUnreadable, uid, version, state)
	}
	info.UID, info.Due = uid, due
	if flags&(endMeta|endWhole) != 0 {
		m, err := unpack(uid, s[r.at:])
		if err != nil {
			return message.Info{}, err
		}
		info.Message = *m
	}
	info.Mark = message.Mark{Uncertain: flags&endUncertain != 0, Refusals: refusals, Changes: uint32(info.Version) - 1}
	return info, nil
}

// packMark returns the text of a mark: "1:<refusals>:<changes>:<lane>", and where a lease ended in vain
// "\x00<at>\x00<consumer>\x00<how>"; or the empty string for the zero mark.
func packMark(m message.Mark) string {
	if m == (message.Mark{}) {
		return ""
	}
	flags := 0
	if m.Uncertain {
		flags = 1
	}
	if m.Handed {
		flags += 2
	}
	try := ""
	if m.Try != (message.Try{}) {
		try = fmt.Sprintf("\x00%d\x00%s\x00%s", m.Try.At, m.Try.Consumer, m.Try.How)
	}
	return strconv.Itoa(flags) + ":" + strconv.FormatUint(uint64(m.Refusals), 10) + ":" +
		strconv.FormatUint(uint64(m.Changes), 10) + ":" + string(m.Lane) + try
}

func unpackMark(s string) (message.Mark, error) {
	if s == "" {
		return message.Mark{}, nil
	}
	s, try, tried := strings.Cut(s, "\x00")
	at, try, _ := strings.Cut(try, "\x00")
	consumer, how, _ := strings.Cut(try, "\x00")
	flags, rest, ok := strings.Cut(s, ":")
	refusals, rest, ok2 := strings.Cut(rest, ":")
	changes, lane, ok3 := strings.Cut(rest, ":")
	n, err := strconv.ParseUint(refusals, 10, 32)
	c, err2 := strconv.ParseUint(changes, 10, 32)
	if !ok || !ok2 || !ok3 || err != nil || err2 != nil || len(flags) != 1 || flags < "0" || flags > "3" {
		return message.Mark{}, fmt.Errorf("%w: mark %.40q", scheduler.ErrUnreadable, s)
	}
	mark := message.Mark{Uncertain: flags == "1" || flags == "3", Handed: flags >= "2", Refusals: uint32(n),
		Changes: uint32(c), Lane: message.Lane(lane)}
	if tried {
		when, _ := strconv.ParseInt(at, 10, 64)
		mark.Try = message.Try{At: message.Milli(when), Consumer: consumer, How: how}
	}
	return mark, nil
}

// reader reads a record from the front. Past the record's end it sets bad and returns zeros.
type reader struct {
	s   string
	at  int
	bad bool
}

func (r *reader) text(n int) string {
	if r.bad || n < 0 || n > len(r.s)-r.at {
		r.bad = true
		return ""
	}
	r.at += n
	return r.s[r.at-n : r.at]
}

func (r *reader) byte() byte {
	if s := r.text(1); s != "" {
		return s[0]
	}
	return 0
}

func (r *reader) number(n int) (v uint64) {
	for _, c := range []byte(r.text(n)) {
		v = v<<8 | uint64(c)
	}
	return v
}

// millis converts ms to a duration.
func (r *reader) millis(ms uint64) time.Duration {
	if ms > uint64(1<<62/time.Millisecond) {
		r.bad = true
		return 0
	}
	return time.Duration(ms) * time.Millisecond
}

func (r *reader) uint16() uint16 { return uint16(r.number(2)) }
func (r *reader) uint32() uint32 { return uint32(r.number(4)) }
func (r *reader) uint64() uint64 { return r.number(8) }

func (r *reader) uvarint() int {
	var v uint64
	for shift := 0; shift < 35; shift += 7 {
		c := r.byte()
		v |= uint64(c&0x7f) << shift
		if c < 0x80 {
			return int(v)
		}
	}
	r.bad = true
	return 0
}
